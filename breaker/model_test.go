package breaker

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// model is a breaker as it is described, slow and plain: it keeps every call in a list.
type model struct {
	r       Rule
	state   string
	since   int64 // of the last change
	closed  int64 // when it has closed, for the back-off
	row     int   // of openings
	results []result
	inARow  int64
	calls   []*call // in flight, those that count
	turned  int64   // the start of the newest bucket of begins; before the first, beginning
	good    int64
	bad     int64
	undone  int64 // what the stride has added up
}

type result struct {
	at           int64
	outcome      resource.Outcome
	slow, judged bool
}

type call struct {
	start  int64
	begun  bool // it was counted when it began
	probe  bool
	ticket resource.Ticket
}

func newModel(r *Rule) *model {
	return &model{r: *r, state: "closed", since: math.MinInt64, turned: math.MinInt64}
}

// enter goes over to another state at a time: nothing is counted.
func (m *model) enter(state string, at int64) {
	m.state, m.since = state, at
	m.results, m.inARow, m.turned, m.good, m.bad, m.undone = nil, 0, math.MinInt64, 0, 0, 0
	for _, c := range m.calls {
		c.probe, c.begun = false, false
	}
}

func (m *model) open(at int64) {
	if m.state != "half-open" && m.row > 0 && at-m.closed >= int64(m.openFor()) {
		m.row = 0
	}
	m.row++
	m.enter("open", at)
}

func (m *model) openFor() time.Duration {
	longest := max(m.r.MaxOpenFor, m.r.OpenFor)
	return time.Duration(min(float64(m.r.OpenFor)*math.Pow(2, float64(m.row-1)), float64(longest)))
}

// settle lets everything take effect that is due by now.
func (m *model) settle(now int64) {
	for {
		if m.state == "ramping" && now >= m.closed+int64(m.r.Ramp) {
			m.enter("closed", m.closed+int64(m.r.Ramp))
		}
		oldest := -1
		for i, c := range m.calls {
			if c.probe && (oldest < 0 || c.start < m.calls[oldest].start) {
				oldest = i
			}
		}
		if m.state != "half-open" || oldest < 0 || m.calls[oldest].start+int64(m.r.probeTimeout()) > now {
			return
		}
		c := m.calls[oldest]
		c.probe = false
		m.bad++
		m.decide(c.start + int64(m.r.probeTimeout()))
	}
}

// enough is the least number of bad probes that reaches a figure.
func (m *model) enough() int64 {
	for bad := int64(1); bad < m.r.Probes; bad++ {
		share := float64(bad) / float64(m.r.Probes)
		if m.r.ErrorCount > 0 || m.r.Consecutive > 0 || m.r.ErrorRatio > 0 && share >= m.r.ErrorRatio || m.r.SlowRatio > 0 && share >= m.r.SlowRatio {
			return bad
		}
	}
	return m.r.Probes
}

func (m *model) decide(at int64) {
	switch {
	case m.bad >= m.enough():
		m.open(at)
	case m.good >= m.r.Probes-m.enough()+1:
		probes := []*call{}
		for _, c := range m.calls {
			if c.probe && c.start >= at {
				probes = append(probes, c)
			}
		}
		state := "closed"
		if m.r.Ramp > 0 {
			state = "ramping"
		}
		m.enter(state, at)
		m.closed = at
		for _, c := range probes { // they go on as calls
			c.begun = true
			if m.r.SlowRatio > 0 {
				m.turn(at)
			}
		}
	}
}

// turn opens the bucket of begins, and reports whether it was not open.
func (m *model) turn(now int64) bool {
	length := (int64(m.r.SlowAfter) + 9) / 10
	if bucket := floor(now, length); bucket > m.turned {
		m.turned = bucket
		return true
	}
	return false
}

func (m *model) overdue() (n int64) {
	length := (int64(m.r.SlowAfter) + 9) / 10
	boundary := m.turned - (int64(m.r.SlowAfter)+length-1)/length*length
	for _, c := range m.calls {
		if c.begun && floor(c.start, length) < boundary {
			n++
		}
	}
	return n
}

func (m *model) judge(now int64) {
	length := int64(m.r.Interval) / int64(m.r.Buckets)
	oldest := floor(now, length) - int64(m.r.Interval) + length
	var failures, total, slow, slowOf int64
	for _, r := range m.results {
		if r.at < oldest {
			continue
		}
		if r.judged {
			total++
			if r.outcome == resource.Failure {
				failures++
			}
		}
		if r.judged || r.slow {
			slowOf++
		}
		if r.slow {
			slow++
		}
	}
	least := m.r.MinCalls
	if m.state == "ramping" {
		least = max(1, int64(math.Ceil(float64(least)*m.rampShare(now))))
	}
	opens := total >= least && failures > 0 && (m.r.ErrorRatio > 0 && float64(failures)/float64(total) >= m.r.ErrorRatio ||
		m.r.ErrorCount > 0 && failures >= m.r.ErrorCount || m.r.Consecutive > 0 && m.inARow >= m.r.Consecutive)
	if m.r.SlowRatio > 0 {
		slow, slowOf = slow+m.overdue(), slowOf+m.overdue()
		opens = opens || slowOf >= least && slow > 0 && float64(slow)/float64(slowOf) >= m.r.SlowRatio
	}
	if opens {
		m.open(now)
	}
}

func (m *model) rampShare(now int64) float64 {
	return max(0.1, float64(now-m.closed)/float64(m.r.Ramp))
}

// look is what comes before every decision.
func (m *model) look(now int64) {
	m.settle(now)
	if (m.state == "closed" || m.state == "ramping") && m.r.SlowRatio > 0 && m.turn(now) {
		m.judge(now)
	}
}

// refuses says whether the look refuses a call.
func (m *model) refuses(now int64) bool {
	m.look(now)
	return m.state == "open" && now < m.since+int64(m.openFor()) || m.state == "half-open" && m.taken() >= m.r.Probes
}

func (m *model) taken() int64 {
	n := m.good + m.bad
	for _, c := range m.calls {
		if c.probe {
			n++
		}
	}
	return n
}

// begin admits a call, or returns nil.
func (m *model) begin(now int64) *call {
	if m.refuses(now) {
		return nil
	}
	c := &call{start: now}
	switch m.state {
	case "open":
		m.enter("half-open", now)
		c.probe = true
	case "half-open":
		c.probe = true
	case "ramping":
		added := int64(math.Ceil(m.rampShare(now) * whole))
		m.undone += added
		if m.undone/whole == (m.undone-added)/whole {
			return nil
		}
		c.begun = true
	default:
		c.begun = true
	}
	m.calls = append(m.calls, c)
	return c
}

// end ends a call; refunded, as if it had never been.
func (m *model) end(c *call, now int64, outcome resource.Outcome, refunded bool) {
	if !refunded {
		m.settle(now)
	}
	m.calls = slices.DeleteFunc(m.calls, func(other *call) bool { return other == c })
	slow := m.r.SlowRatio > 0 && now-c.start > int64(m.r.SlowAfter)
	switch {
	case c.start < m.since || m.state == "open":
	case m.state == "half-open":
		failed := outcome == resource.Failure && (m.r.ErrorRatio > 0 || m.r.ErrorCount > 0 || m.r.Consecutive > 0)
		switch {
		case !c.probe || refunded:
		case failed || slow:
			m.bad++
			m.decide(now)
		case outcome != resource.Ignored:
			m.good++
			m.decide(now)
		}
	case refunded:
		if m.state == "ramping" {
			m.undone -= c.ticket.B
		}
	default:
		m.results = append(m.results, result{now, outcome, slow, outcome != resource.Ignored})
		switch outcome {
		case resource.Failure:
			m.inARow++
		case resource.Success:
			m.inARow = 0
		case resource.Ignored:
			if !slow {
				return
			}
		}
		m.judge(now)
	}
}

func TestBreaker_DecidesAsItIsDescribed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		duration := func(least, most int64, name string) time.Duration {
			return time.Duration(rapid.Int64Range(least, most).Draw(t, name)) * time.Millisecond
		}
		r := &Rule{
			ID: "b", Resource: "a",
			Buckets:  rapid.IntRange(1, 4).Draw(t, "buckets"),
			MinCalls: rapid.Int64Range(1, 6).Draw(t, "minCalls"),
			OpenFor:  duration(1, 40, "openFor"),
			Probes:   rapid.Int64Range(1, 5).Draw(t, "probes"),
		}
		r.Interval = time.Duration(r.Buckets) * duration(1, 30, "bucket")
		if rapid.Bool().Draw(t, "hasErrorRatio") {
			r.ErrorRatio = rapid.SampledFrom([]float64{0.1, 0.3, 0.5, 0.9, 1}).Draw(t, "errorRatio")
		}
		if rapid.Bool().Draw(t, "hasSlowRatio") {
			r.SlowRatio = rapid.SampledFrom([]float64{0.2, 0.5, 1}).Draw(t, "slowRatio")
			r.SlowAfter = duration(1, 30, "slowAfter")
		}
		r.ErrorCount = rapid.SampledFrom([]int64{0, 0, 2, 5}).Draw(t, "errorCount")
		r.Consecutive = rapid.SampledFrom([]int64{0, 0, 2, 4}).Draw(t, "consecutive")
		if r.ErrorRatio == 0 && r.SlowRatio == 0 && r.ErrorCount == 0 && r.Consecutive == 0 {
			r.ErrorRatio = 0.5
		}
		if rapid.Bool().Draw(t, "backsOff") {
			r.MaxOpenFor = r.OpenFor + duration(0, 100, "maxOpenFor")
		}
		if rapid.Bool().Draw(t, "timesOut") {
			r.ProbeTimeout = duration(1, 30, "probeTimeout")
		}
		if rapid.Bool().Draw(t, "ramps") {
			r.Ramp = duration(1, 60, "ramp")
		}
		var report ruleset.Report
		complete(r, &report)

		now := rapid.Int64Range(-100, 100).Draw(t, "start") * int64(time.Millisecond)
		c := compile(&ruleset.Env{Now: func() int64 { return now }}, r, "a", nil).(*check)
		m := newModel(r)
		var trace []string
		agree := func(step string) {
			trace = append(trace, fmt.Sprintf("%v %s: %s", time.Duration(now), step, m.state))
			require.Equal(t, m.state, c.breaker.state.Current(), "%+v\n%v", *r, trace)
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				now += int64(duration(0, 5, "passes"))
			case 2:
				now += int64(duration(0, 50, "passes long"))
			case 3:
				m.settle(now)
				c.Snapshot(now)
				agree("snapshot")
			case 4:
				refuses := m.refuses(now)
				require.Equal(t, refuses, c.Look(now, 1, resource.Caller{}) != nil)
				agree("look")
			case 5, 6, 7:
				c.Wait(now, 1, resource.Caller{}) // changes nothing
				v := c.Reserve(now, 1, resource.Caller{})
				begun := m.begin(now)
				agree("begin")
				require.Equal(t, begun != nil, v.Refused == nil, "%v", trace)
				if begun == nil {
					if m.state == "open" {
						require.EqualValues(t, m.since+int64(m.openFor())-now, v.Refused.RetryAfter)
					}
					continue
				}
				begun.ticket = v.Ticket
				if rapid.IntRange(0, 5).Draw(t, "refunded") == 0 {
					c.Refund(v.Ticket, 1)
					m.end(begun, now, 0, true)
					agree("refund")
				}
			default:
				if len(m.calls) == 0 {
					continue
				}
				ends := m.calls[rapid.IntRange(0, len(m.calls)-1).Draw(t, "which")]
				outcome := rapid.SampledFrom([]resource.Outcome{resource.Success, resource.Failure, resource.Failure, resource.Ignored}).Draw(t, "outcome")
				c.Finish(now, 1, time.Duration(now-ends.start), outcome)
				m.end(ends, now, outcome, false)
				agree(fmt.Sprintf("end of %v as %v", time.Duration(ends.start), outcome))
			}
		}
	})
}
