package stat

import (
	"time"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/leapgate-go/leapgate/metric"
)

// Snapshot is the figures of one resource at one time. It is a plain value.
//
// The totals hold Exception ≤ Success ≤ Pass and Concurrency ≥ 0, however many
// calls come and go while they are read. The figures of a window are not ordered
// against each other: a call that began before it may end in it.
type Snapshot struct {
	Resource string
	At       time.Time // by the wall clock

	// Per second, over the last second, the running tenth of it included: a steady
	// 50 reads between 45 and 50.
	PassQPS, BlockQPS, SuccessQPS, ExceptionQPS float64

	// Of the calls completed in the last second; 0 with none.
	AvgRT, MinRT time.Duration
	// Of the calls completed in the last ten seconds, at most 4.4 % off; 0 with none.
	P50, P95, P99 time.Duration

	// Concurrency is the number of calls in flight, and MaxConcurrency the most of the
	// last second, which is a little low at times: see [metric.Metric.MaxConcurrency].
	Concurrency, MaxConcurrency int64

	// Totals since the resource was first seen, or seen again after an eviction.
	Pass, Block, Success, Exception, OccupiedPass int64
	// WouldBlock is how many of those that passed a rule in shadow mode would
	// have blocked.
	WouldBlock int64
	// Ignored is how many of those that succeeded, which means that they completed, say
	// nothing about the resource: their callers gave up, for instance.
	Ignored int64

	// Rules are the figures of each rule that binds the resource, in the order in
	// which the rules are asked.
	Rules []RuleSnapshot
}

// RuleSnapshot is the figures of one rule on one resource. The counts begin when
// the rule was first loaded, and go on whatever is changed of it, but its ID and the
// resource. Admitted begins anew with a new window.
type RuleSnapshot struct {
	ID, Kind   string
	Mode       rule.Mode
	Threshold  float64       // as it was loaded
	Effective  float64       // what holds now: less than Threshold while warming up, or short of memory
	Interval   time.Duration // in which the threshold is admitted; 0 for rules without
	Admitted   int64         // what the rule admitted, less what it was given back
	Blocked    int64         // what the rule blocked
	WouldBlock int64         // what the rule would have blocked, had it not been in shadow mode

	// Candidate is the threshold that is tried beside the live one, 0 if there is
	// none, and CandidateWouldBlock what it would have blocked.
	Candidate           float64
	CandidateWouldBlock int64

	// LastRefusal is the last one by this rule. It is zero if there was none. Of more
	// than 64 in a millisecond, it is the 64th.
	LastRefusal Refusal

	// State is what the rule is in, such as "open", and States all that it can be in. They
	// are empty if there is only one thing that it does. Since is when the last change was,
	// zero if there was none; Changes is how many there were, and LastChanges are the last
	// 16 of them, oldest first. They go on when the rule is changed, and when a resource that
	// was evicted comes again while it is remembered; but then Changes begins anew, as all
	// counts do.
	State       string
	States      []string
	Since       time.Time
	Changes     int64
	LastChanges []Change
}

// Change is a rule on a resource going over from one state to another. It is a plain value.
type Change struct {
	At                     time.Time // by the wall clock
	Resource, Kind, RuleID string
	From, To               string // the states
	Reason                 string // for people, with the numbers; at most 256 bytes
	// Skipped is how many changes there were between From and To that are not told one by
	// one, because too many waited for an OnChange that is slow; 0 in a snapshot.
	Skipped int64
}

// Refusal is one refusal of a call.
type Refusal struct {
	At         time.Time     // by the wall clock
	Origin     string        // who called, if that was told
	Observed   float64       // what was held against the threshold, the refused call included
	Threshold  float64       // what the rule admitted at that time
	Detail     string        // what the error said besides: " in flight"
	RetryAfter time.Duration // as the caller was told
}

// Snapshot gives the resource's figures at now. The totals, the rules, the name
// and the time by the wall clock are the caller's to fill in.
func (s *Stat) Snapshot(now int64) Snapshot {
	m := s.metric
	window := m.Window(now)
	perSecond := func(e metric.Event) float64 { return float64(window[e]) / fineInterval.Seconds() }
	latencies := s.Recent(now)
	return Snapshot{
		PassQPS: perSecond(metric.Pass), BlockQPS: perSecond(metric.Block),
		SuccessQPS: perSecond(metric.Success), ExceptionQPS: perSecond(metric.Exception),
		AvgRT: metric.AvgRT(window), MinRT: m.MinRT(now),
		MaxConcurrency: m.MaxConcurrency(now),
		P50:            latencies.Quantile(0.50), P95: latencies.Quantile(0.95), P99: latencies.Quantile(0.99),
	}
}

// SetTotals fills in the totals, and the concurrency that follows from them. An
// exception whose success was not seen yet is left for the next time.
func (s *Snapshot) SetTotals(c metric.Counts) {
	s.Pass, s.Block = c[metric.Pass], c[metric.Block]
	s.Success, s.Exception = c[metric.Success], min(c[metric.Exception], c[metric.Success])
	s.OccupiedPass, s.WouldBlock = c[metric.OccupiedPass], c[metric.WouldBlock]
	s.Ignored = min(c[metric.Ignored], c[metric.Success])
	s.Concurrency = c.Concurrency()
}
