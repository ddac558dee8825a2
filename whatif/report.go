package whatif

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/rule"
)

// Report is the result of trying rules on a log.
type Report struct {
	Traffic Traffic `json:"traffic"`

	// Blocked is the number of requests that would have been blocked, and Share their share of all requests.
	Blocked int64   `json:"blocked"`
	Share   float64 `json:"share"`

	// Waited is the number of requests that would have waited, and LongestWait the longest wait.
	Waited      int64    `json:"waited,omitempty"`
	LongestWait Duration `json:"longestWait,omitempty"`

	Rules  []RuleReport `json:"rules"`  // in the order in which they are checked: limits, then each kind
	Curves []Curve      `json:"curves"` // one for each window

	Notes []string `json:"notes,omitempty"` // sentences that a reader needs to judge the report
}

// Traffic describes the log, whatever the rules.
type Traffic struct {
	Requests int64     `json:"requests"`
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Refused  int64     `json:"refused,omitempty"` // blocked then; they count as demand

	Resources    int             `json:"resources"`
	TopResources []ResourceCount `json:"topResources"` // the ten with the most requests
	Keys         int             `json:"keys"`
	Keyless      int64           `json:"keyless,omitempty"` // requests without a key
	Top          []KeyCount      `json:"top"`               // the ten keys with the most requests
	TopShare     float64         `json:"topShare"`          // of the first of them

	BusiestMinute Minute `json:"busiestMinute"`
}

// ResourceCount is the number of requests of a resource.
type ResourceCount struct {
	Resource string `json:"resource"` // as in the log: escape it before it is shown
	Requests int64  `json:"requests"`
}

// KeyCount is the number of requests of a key.
type KeyCount struct {
	Key      string `json:"key"` // as in the log: escape it before it is shown
	Requests int64  `json:"requests"`
	Blocked  int64  `json:"blocked"`
}

// Minute is the number of requests in a minute of the clock.
type Minute struct {
	At       time.Time `json:"at,omitzero"`
	Requests int64     `json:"requests"`
}

// RuleReport contains the effects of one rule or one limit per key.
type RuleReport struct {
	Kind      string    `json:"kind"` // of the rule, or "limit"
	ID        string    `json:"id"`   // or the name of the limit
	Resource  string    `json:"resource,omitempty"`
	Text      string    `json:"text"` // a description in one line
	Mode      rule.Mode `json:"mode"` // as configured
	Threshold float64   `json:"threshold"`
	Interval  Duration  `json:"interval,omitempty"` // 0 for rules without
	PerKey    bool      `json:"perKey,omitempty"`

	Requests int64   `json:"requests"` // that the rule binds
	Blocked  int64   `json:"blocked"`
	Share    float64 `json:"share"`

	First       time.Time  `json:"first,omitzero"` // blocked request
	Last        time.Time  `json:"last,omitzero"`
	WorstMinute Minute     `json:"worstMinute"` // with the most blocked requests
	Keys        int        `json:"keys"`        // with blocked requests
	Top         []KeyCount `json:"top"`         // the ten keys with the most blocked requests

	// Windows is the demand in the windows of the clock that have any, with PerKey of each key. It is zero for rules
	// without an interval.
	Windows Counts `json:"windows"`

	Notes []string `json:"notes,omitempty"`
}

// Counts is a distribution: half of the numbers are at most P50, and so on.
type Counts struct {
	N    int64 `json:"n"`
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// Duration is a time.Duration that is written as text in JSON: "1m".
type Duration time.Duration

// String returns the duration without trailing zeros: "24h".
func (d Duration) String() string { return field.ShortDuration(time.Duration(d)) }

// MarshalText returns the same text as String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Run tries rules on the requests of a source. The error says all that is wrong with the configuration, or it comes
// from ctx or the source.
func Run(ctx context.Context, cfg Config, requests Source) (*Report, error) {
	s, err := simulate(ctx, &cfg, rule.Enforce, requests, nil)
	if err != nil {
		return nil, err
	}
	return s.report(&cfg), nil
}

func (s *simulator) report(cfg *Config) *Report {
	y := s.tally
	r := &Report{
		Traffic: y.traffic(), Blocked: y.blocked, Share: share(y.blocked, y.requests), Waited: y.waited, LongestWait: Duration(y.longest),
	}
	for i := range y.rules {
		r.Rules = append(r.Rules, y.ruleReport(&y.rules[i], cfg))
	}
	for _, w := range y.curves {
		r.Curves = append(r.Curves, curveOf(w, cfg.Resolution))
	}
	r.Notes = s.notes(r, cfg)
	return r
}

func share(part, whole int64) float64 { return float64(part) / float64(max(1, whole)) }

func timeOf(at int64) time.Time { return time.Unix(0, at).UTC() }

func (y *tally) traffic() Traffic {
	t := Traffic{
		Requests: y.requests, Refused: y.refused, Resources: len(y.places), TopResources: []ResourceCount{},
		Keys: len(y.keys.all) - 1, Keyless: y.keyless, BusiestMinute: y.minute.report(), Top: []KeyCount{},
	}
	for _, p := range y.places {
		t.TopResources = ranked(t.TopResources, ResourceCount{p.name, p.requests}, func(a, b ResourceCount) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Resource, b.Resource))
		})
	}
	for key, k := range y.byKey {
		if key != noKey {
			t.Top = ranked(t.Top, KeyCount{y.keys.all[key], k.requests, k.blocked}, func(a, b KeyCount) int {
				return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
			})
		}
	}
	if y.requests > 0 {
		t.First, t.Last = timeOf(y.first), timeOf(y.last)
	}
	if len(t.Top) > 0 {
		t.TopShare = share(t.Top[0].Requests, t.Requests)
	}
	return t
}

// ranked inserts v into the first ten of a sorted list.
func ranked[T any](top []T, v T, compare func(a, b T) int) []T {
	const most = 10
	at, _ := slices.BinarySearchFunc(top, v, compare)
	if at == most {
		return top
	}
	top = slices.Insert(top, at, v)
	return top[:min(most, len(top))]
}

func (y *tally) ruleReport(of *ruleTally, cfg *Config) RuleReport {
	r := RuleReport{
		Kind: of.kind, ID: of.id, Resource: of.resource, Text: of.text, Mode: of.mode,
		Threshold: of.threshold, Interval: Duration(of.interval), PerKey: of.perKey,
		Requests: of.requests, Blocked: of.blocked, Share: share(of.blocked, of.requests),
		WorstMinute: of.minute.report(), Keys: len(of.byKey), Top: []KeyCount{},
	}
	if of.blocked > 0 {
		r.First, r.Last = timeOf(of.first), timeOf(of.last)
	}
	for key, blocked := range of.byKey {
		r.Top = ranked(r.Top, KeyCount{y.keys.all[key], y.byKey[key].requests, blocked}, func(a, b KeyCount) int {
			return cmp.Or(cmp.Compare(b.Blocked, a.Blocked), cmp.Compare(a.Key, b.Key))
		})
	}
	demand := make(histogram)
	for _, b := range of.bounds {
		if b.demand != nil {
			b.demand.finish()
			for v, n := range b.demand.closed {
				demand[v] += n
			}
		}
	}
	r.Windows = countsOf(demand.bins())
	r.Notes = ruleNotes(&r, of, cfg)
	return r
}
