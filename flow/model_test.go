package flow_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// naiveRule is a rule that remembers every admission by itself.
type naiveRule struct {
	flow.Rule
	*naiveWindow
	*naiveCounts
}

type naiveWindow struct {
	begun  bool
	newest int64
	log    []naiveAdmission
}

type naiveCounts struct{ blocked, wouldBlock int64 }

type naiveAdmission struct{ start, n int64 }

func (r *naiveRule) length() int64 { return int64(r.Interval) / int64(r.Buckets) }

// memory is how long a bucket is remembered, from its start.
func (r *naiveRule) memory() int64 {
	if r.Strict {
		return int64(r.Interval) + r.length()
	}
	return int64(r.Interval)
}

func (r *naiveRule) limit() int64 { return int64(math.Floor(r.Threshold)) }

// bucket is where a decision at now is made.
func (r *naiveRule) bucket(now int64) int64 {
	start := now - now%r.length()
	if r.begun {
		start = max(start, r.newest)
	}
	return start
}

func (r *naiveRule) held(now int64) (sum int64) {
	gone := r.bucket(now) - r.memory()
	for _, a := range r.log {
		if a.start > gone {
			sum += a.n
		}
	}
	return sum
}

// wait tries every time at which a bucket leaves.
func (r *naiveRule) wait(now, n int64) time.Duration {
	if n > r.limit() {
		return -1
	}
	if r.held(now)+n <= r.limit() {
		return 0
	}
	shortest := int64(math.MaxInt64)
	for _, a := range r.log {
		if leaves := a.start + r.memory(); leaves > now && leaves < shortest && r.held(leaves)+n <= r.limit() {
			shortest = leaves
		}
	}
	return time.Duration(shortest - now)
}

// reserve admits, or tells what is held.
func (r *naiveRule) reserve(now, n int64) (held int64, ok bool) {
	r.begun, r.newest = true, r.bucket(now)
	if held = r.held(now); held+n > r.limit() {
		return held, false
	}
	r.log = append(r.log, naiveAdmission{r.newest, n})
	return held, true
}

func (r *naiveRule) admitted() (sum int64) {
	for _, a := range r.log {
		sum += a.n
	}
	return sum
}

// naiveBlock is what a BlockError must say.
type naiveBlock struct {
	rule       string
	observed   float64
	retryAfter time.Duration
}

// naiveGate is the rules of one resource.
type naiveGate struct{ rules []*naiveRule }

func (m *naiveGate) load(rules []flow.Rule) {
	next := make([]*naiveRule, len(rules))
	for i, r := range rules {
		next[i] = &naiveRule{r, &naiveWindow{}, &naiveCounts{}}
		for _, old := range m.rules {
			if old.ID == r.ID {
				next[i].naiveCounts = old.naiveCounts
			}
			if old.ID == r.ID && old.Interval == r.Interval && old.Buckets == r.Buckets && old.Strict == r.Strict {
				next[i].naiveWindow = old.naiveWindow
			}
		}
	}
	m.rules = next
}

func (m *naiveGate) call(now, n int64) (blocked *naiveBlock, wouldBlock bool) {
	var asked []*naiveRule
	for _, r := range m.rules {
		if r.Mode != rule.Enforce {
			continue
		}
		held, ok := r.reserve(now, n)
		if ok {
			asked = append(asked, r)
			continue
		}
		r.blocked += n
		for _, a := range asked {
			a.log = a.log[:len(a.log)-1]
		}
		blocked = &naiveBlock{rule: r.ID, observed: float64(held + n)}
		break
	}
	if blocked != nil {
		for _, r := range m.rules {
			if r.Mode != rule.Enforce {
				continue
			}
			wait := r.wait(now, n)
			if wait < 0 {
				blocked.retryAfter = 0
				break
			}
			blocked.retryAfter = max(blocked.retryAfter, wait)
		}
		return blocked, false
	}
	for _, r := range m.rules {
		if r.Mode != rule.Shadow {
			continue
		}
		if _, ok := r.reserve(now, n); !ok {
			r.wouldBlock += n
			wouldBlock = true
		}
	}
	return nil, wouldBlock
}

func drawRules(t *rapid.T) []flow.Rule {
	ids := rapid.Permutation([]string{"p", "q", "r", "s"}).Draw(t, "ids")
	rules := make([]flow.Rule, rapid.IntRange(0, 4).Draw(t, "rules"))
	for i := range rules {
		buckets := rapid.IntRange(1, 4).Draw(t, "buckets")
		length := rapid.SampledFrom([]time.Duration{ms, 30 * ms, 100 * ms}).Draw(t, "bucket length")
		rules[i] = flow.Rule{
			ID: ids[i], Resource: "a",
			Threshold: rapid.SampledFrom([]float64{0, 0.9, 1.5, 2, 3, 4.99, 7}).Draw(t, "threshold"),
			Interval:  length * time.Duration(buckets), Buckets: buckets,
			Strict: rapid.Bool().Draw(t, "strict"),
			Mode:   rapid.SampledFrom([]rule.Mode{rule.Enforce, rule.Enforce, rule.Enforce, rule.Shadow, rule.Off}).Draw(t, "mode"),
		}
	}
	return rules
}

// Any rules, any calls, any reloads, on a clock that stands, runs, jumps and goes
// back: the gate says what a log of single admissions says. And a call that waits
// as long as it is told, and is alone, passes; a nanosecond earlier it does not.
func TestRule_AgreesWithAnExactLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		now, model := minute, &naiveGate{}
		g := leapgate.Must(leapgate.Config{Now: func() int64 { return now }})
		handle := g.Resource("a")
		var pass, block, would int64

		load := func(rules []flow.Rule) {
			if err := g.LoadFlowRules(rules); err != nil {
				t.Fatal(err)
			}
			model.load(rules)
		}
		call := func(n int64) *leapgate.BlockError {
			e, err := handle.EntryContext(ctx, leapgate.WithCount(n))
			e.Exit()
			var b *leapgate.BlockError
			if err != nil && !errors.As(err, &b) {
				t.Fatal(err)
			}
			want, wouldBlock := model.call(now, n)
			switch {
			case (b == nil) != (want == nil):
				t.Fatalf("%d at %d returns %v, want %+v", n, now-minute, err, want)
			case b == nil:
				pass += n
				if wouldBlock {
					would += n
				}
			default:
				block += n
				if got := (naiveBlock{b.RuleID, b.Observed, b.RetryAfter}); got != *want {
					t.Fatalf("%d at %d returns %+v, want %+v", n, now-minute, got, *want)
				}
			}
			return b
		}

		load(drawRules(t))
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				s := handle.Snapshot()
				if s.Pass != pass || s.Block != block || s.WouldBlock != would || s.Concurrency != 0 {
					t.Fatalf("%+v, want pass %d, block %d, would block %d", s, pass, block, would)
				}
				if len(s.Rules) != len(model.rules) {
					t.Fatalf("%d rules, want %d", len(s.Rules), len(model.rules))
				}
				for i, r := range model.rules {
					got := figuresOf{s.Rules[i].ID, s.Rules[i].Admitted, s.Rules[i].Blocked, s.Rules[i].WouldBlock}
					if want := (figuresOf{r.ID, r.admitted(), r.blocked, r.wouldBlock}); got != want {
						t.Fatalf("rule has %+v, want %+v", got, want)
					}
				}
			},
			"call": func(t *rapid.T) { call(rapid.Int64Range(1, 3).Draw(t, "n")) },
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(2, 8).Draw(t, "calls") {
					call(1)
				}
			},
			"call again when told to": func(t *rapid.T) {
				n := rapid.Int64Range(1, 3).Draw(t, "n")
				b := call(n)
				if b == nil || b.RetryAfter == 0 {
					return
				}
				now += int64(b.RetryAfter) - 1
				if early := call(n); early == nil || early.RetryAfter != 1 {
					t.Fatalf("told to wait %v; a nanosecond earlier %+v", b.RetryAfter, early)
				}
				now++
				if late := call(n); late != nil {
					t.Fatalf("told to wait %v; then %v", b.RetryAfter, late)
				}
			},
			"clock": func(t *rapid.T) {
				now += int64(rapid.SampledFrom([]time.Duration{1, ms, 29 * ms, 30 * ms, 99 * ms, 100 * ms, time.Second, time.Hour, -1, -50 * ms}).Draw(t, "step"))
			},
			"edge": func(t *rapid.T) {
				length := int64(rapid.SampledFrom([]time.Duration{ms, 30 * ms, 100 * ms}).Draw(t, "of"))
				now += length - now%length - rapid.Int64Range(0, 1).Draw(t, "before")
			},
			"load others": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
					load(drawRules(t))
				}
			},
			"change threshold and mode": func(t *rapid.T) {
				rules := g.FlowRules()
				for i, r := range drawRules(t) {
					if i < len(rules) {
						rules[i].Threshold, rules[i].Mode = r.Threshold, r.Mode
					}
				}
				if len(rules) > 1 && rapid.Bool().Draw(t, "reorder") {
					slices.Reverse(rules)
				}
				load(rules)
			},
		})
	})
}
