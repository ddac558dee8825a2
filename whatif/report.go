package whatif

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/rule"
)

// Report is what came of trying rules on a log. It is a plain value.
type Report struct {
	Traffic Traffic `json:"traffic"`

	// Blocked is how many requests were refused for good, by rules in mode enforce, and Share
	// what part of all they are. Retried is how many tries there were beyond the first of
	// each request, and Recovered how many requests passed that way.
	Blocked   int64   `json:"blocked"`
	Share     float64 `json:"share"`
	Retried   int64   `json:"retried,omitempty"`
	Recovered int64   `json:"recovered,omitempty"`
	// BlockedRange is what Blocked may be, for all that the log tells.
	BlockedRange Range `json:"blockedRange"`
	// WouldBlock is how many of the others rules in mode shadow would have refused, and
	// WouldBlockRange what that may be.
	WouldBlock      int64 `json:"wouldBlock,omitempty"`
	WouldBlockRange Range `json:"wouldBlockRange"`

	// Waited is how many requests had to wait, and LongestWait for how long at most.
	Waited      int64    `json:"waited,omitempty"`
	LongestWait Duration `json:"longestWait,omitempty"`

	Rules  []RuleReport `json:"rules"`  // in the order in which they are asked: limits, then each kind
	Curves []Curve      `json:"curves"` // one for each window

	Notes []string `json:"notes,omitempty"` // what a reader must know to judge all this
}

// Traffic is what the log had, whatever the rules.
type Traffic struct {
	Requests int64     `json:"requests"`
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	// Refused is how many were refused then: they are demand all the same.
	Refused int64 `json:"refused,omitempty"`
	// Late is how many came out of order, and were taken for as late as the one before.
	Late int64 `json:"late,omitempty"`

	Resources    int             `json:"resources"`
	TopResources []ResourceCount `json:"topResources"` // the ten with the most requests, most first
	Keys         int             `json:"keys"`
	Keyless      int64           `json:"keyless,omitempty"` // requests without a key
	Top          []KeyCount      `json:"top"`               // the ten keys with the most requests, most first; Blocked by all rules
	TopShare     float64         `json:"topShare"`

	BusiestMinute Minute `json:"busiestMinute"`
}

// ResourceCount is a resource and how many requests it had.
type ResourceCount struct {
	Resource string `json:"resource"` // as the log has it: escape it before it is shown
	Requests int64  `json:"requests"`
}

// KeyCount is a key and how many requests it had.
type KeyCount struct {
	Key      string `json:"key"` // as the log has it: escape it before it is shown
	Requests int64  `json:"requests"`
	Blocked  int64  `json:"blocked"`
}

// Minute is how many requests there were in a minute of the clock.
type Minute struct {
	At       time.Time `json:"at,omitzero"`
	Requests int64     `json:"requests"`
}

// Range is from the least to the most.
type Range struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

// RuleReport is what one rule, or one limit per key, would have done.
type RuleReport struct {
	Kind      string    `json:"kind"` // of the rule, or "limit"
	ID        string    `json:"id"`   // or the name of the limit
	Resource  string    `json:"resource,omitempty"`
	Text      string    `json:"text"` // what the rule does, in one line
	Mode      rule.Mode `json:"mode"`
	Threshold float64   `json:"threshold"`
	Interval  Duration  `json:"interval,omitempty"` // 0 for rules without
	PerKey    bool      `json:"perKey,omitempty"`

	// Requests is how many the rule binds. Blocked is how many of them it refused for good; in
	// mode shadow, how many it would have. With retries, Refusals has all that it refused.
	Requests int64   `json:"requests"`
	Blocked  int64   `json:"blocked"`
	Share    float64 `json:"share"`
	Refusals int64   `json:"refusals"`
	// Range is what Blocked may be, for all that the log tells of times.
	Range Range `json:"range"`

	First       time.Time `json:"first,omitzero"` // refusal
	Last        time.Time `json:"last,omitzero"`
	WorstMinute Minute    `json:"worstMinute"` // with the most refusals
	Keys        int       `json:"keys"`        // that were refused anything
	// Top are the ten keys that were refused most, most first; their Blocked is how often.
	Top []KeyCount `json:"top"`

	// Windows is how much was wanted in each window of the clock of Interval that has any
	// requests; with PerKey, of each key. It is zero for rules without.
	Windows Counts `json:"windows"`
	// Busiest is the most that was wanted within any Interval, wherever it begins. It is exact
	// for up to 1 h, and beyond that as if requests left it up to a 100,000th of it too late. With
	// PerKey it is that of the windows.
	Busiest int64 `json:"busiest"`
	// Headroom is what part of the threshold was left then; negative, what more was wanted.
	Headroom float64 `json:"headroom"`

	// Exact compares with a window that is counted exactly; nil if the rule is about
	// something else.
	Exact *Exact `json:"exact,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// Exact is what a rule would have refused of the same calls, with those that came again, if at most its threshold
// passed in any Interval, wherever that begins.
type Exact struct {
	Blocked int64 `json:"blocked"`
	// Stricter is how many only the rule refused, and Laxer how many only an exact count
	// would have.
	Stricter int64 `json:"stricter"`
	Laxer    int64 `json:"laxer"`
}

// Counts is how numbers are spread: half of them are up to P50, and so on.
type Counts struct {
	N    int64 `json:"n"` // how many numbers there are
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// Duration is a time.Duration that is text in JSON: "1m".
type Duration time.Duration

// String is the duration without zeros at its end: "24h".
func (d Duration) String() string { return field.ShortDuration(time.Duration(d)) }

// MarshalText returns that text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
