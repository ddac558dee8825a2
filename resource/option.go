package resource

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/rule"
)

// maxCount is the largest count of one entry. Response times are summed up once per
// count: calls that all have the largest may take 2.4 hours together before the sum over
// a window is wrong.
const maxCount = 1 << 20

// EntryOption changes one entry. The zero EntryOption changes nothing.
type EntryOption struct {
	kind  optionKind
	count int64
	name  string // of an argument
	text  string
}

type optionKind uint8

const (
	noOption optionKind = iota
	countOption
	originOption
	priorityOption
	criticalityOption
	argOption
	noRatesOption
)

// WithCount makes an entry count n times, 1 to 1,048,576: it passes if n more
// fit into every rule, and counts n passes, n successes, n times its response time
// and n calls in flight, so that averages stay per call.
func WithCount(n int64) EntryOption { return EntryOption{kind: countOption, count: n} }

// WithOrigin names the caller, for rules that are for some callers only, and for the last
// refusal of each rule. It has at most [rule.MaxNameLength] bytes.
func WithOrigin(origin string) EntryOption { return EntryOption{kind: originOption, text: origin} }

// WithPriority lets an entry take what the next buckets of a rule will have room for,
// and wait for them, when the window is full. It counts there, as pass and as
// occupied-pass. How long it may wait is the rule's. It has no effect on rules that pace calls.
func WithPriority() EntryOption { return EntryOption{kind: priorityOption} }

// WithCriticality says how much the call matters when not all can be served. Without it a
// call is of [DefaultCriticality], and so it is with a value that is none of the four.
func WithCriticality(c Criticality) EntryOption {
	return EntryOption{kind: criticalityOption, count: int64(c)}
}

// WithoutRates exempts an entry from all rules on calls per time: those of kind flow, and those of
// kind param but for calls in flight. They admit it and do not count it. All other rules bind it,
// and it is in the statistics.
func WithoutRates() EntryOption { return EntryOption{kind: noRatesOption} }

// WithArg adds an argument to the call, for rules that decide by it, such as the ID of an
// item or a tenant. The name has 1 to [rule.MaxNameLength] bytes. The value has at most as many,
// and may be empty. An entry has at most four; of one name the last holds.
func WithArg(name, value string) EntryOption {
	return EntryOption{kind: argOption, name: name, text: value}
}

// apply returns what the options say but for the arguments, and how many of these there
// are; or what is wrong.
func apply(opts []EntryOption) (n int64, by Caller, args int, err error) {
	n = 1
	for i := range opts {
		o := &opts[i]
		switch o.kind {
		case noOption:
		case countOption:
			if o.count < 1 || o.count > maxCount {
				return 0, by, 0, fmt.Errorf("%w: %d; want 1 to %d", callerror.ErrCount, o.count, maxCount)
			}
			n = o.count
		case originOption:
			if len(o.text) > rule.MaxNameLength {
				return 0, by, 0, fmt.Errorf("%w: %.32q… has %d bytes; want at most %d", callerror.ErrOrigin, o.text, len(o.text), rule.MaxNameLength)
			}
			by.Origin = o.text
		case priorityOption:
			by.Priority = true
		case criticalityOption:
			by.Criticality = DefaultCriticality
			if c := Criticality(o.count); c <= Background {
				by.Criticality = c
			}
		case noRatesOption:
			by.NoRates = true
		case argOption:
			args++
		}
	}
	return n, by, args, nil
}
