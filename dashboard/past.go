package dashboard

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/history"
	"github.com/leapgate-go/leapgate/stat"
)

// What is kept of the past: an hour in steps of 5 s, how many calls wanted in each second of it,
// and the last minute by seconds.
const (
	stepSeconds   = 5
	hourSteps     = 3600 / stepSeconds
	hourSeconds   = 3600
	minuteSeconds = 60

	pastBytes     = 15 << 10 // at most, of the steps of the hour
	demandBytes   = 15 << 10
	minuteBytes   = 2 << 10
	pastRuleBytes = 6 << 10

	ruleMinuteBytes = 1 << 10

	pastOverhead = 512 // about what a resource takes besides its rows
)

// The figures of a resource in a step. Times are packed.
const (
	pastPass = iota
	pastBlock
	pastException
	pastWouldBlock
	pastConcurrency // the most
	pastWaiting     // the most
	pastWaitP95
	pastP50
	pastP95
	pastP99
	pastFigures
)

var pastJoins = [pastFigures]history.Join{
	history.Sum, history.Sum, history.Sum, history.Sum, history.Most, history.Most,
	history.Newest, history.Newest, history.Newest, history.Newest,
}

// The figures of a rule on a resource in a step.
const (
	pastBlocked = iota
	pastRuleWouldBlock
	pastCandidateWouldBlock
	pastMissing   // without the argument
	pastChanges   // of the state
	pastEffective // 0 if it is the threshold, or one more than a packed level
	pastState     // its number in all that there are
	pastThreshold // packed
	pastCandidate // packed
	pastRuleFigures
)

var pastRuleJoins = [pastRuleFigures]history.Join{
	history.Sum, history.Sum, history.Sum, history.Sum, history.Sum,
	history.Newest, history.Newest, history.Newest, history.Newest,
}

// The totals of a resource and of a rule, in the order of their figures.
type (
	counts     [pastWouldBlock + 1]int64
	ruleCounts [pastChanges + 1]int64
)

// past is what resources and their rules did in the last hour. It is fed every second, and takes
// a bounded memory: what has not been called for longest is forgotten first. A resource that was
// evicted is forgotten too.
type past struct {
	max int // bytes

	mu        sync.Mutex
	resources map[string]*resourcePast // all of the gate
	used      int                      // bytes
	forgotten int64                    // resources
	round     int64                    // of feeding; 0 before the first
	load      loadPast
}

type resourcePast struct {
	totals counts
	round  int64 // in which it was fed last
	called int64 // the second in which it was called last

	// What it did; nil while there is nothing to keep.
	hour, minute, demand *history.Row
	rules                map[ruleKey]*rulePast
	bytes                int
}

type rulePast struct {
	totals  ruleCounts
	seconds secondCounts // totals of what the minute has
	states  []string
	round   int64
	hour    *history.Row
	minute  *history.Row
}

func newPast(most int) *past { return &past{max: most, resources: make(map[string]*resourcePast)} }

// run feeds it until it is stopped: at once, and then as each second begins, so that what is fed
// is that of the second before. The windows of rules begin with the seconds too.
func (p *past) run(read func() (time.Time, []stat.Snapshot), stop <-chan struct{}) {
	p.feed(read())
	tick := time.NewTicker(time.Second - time.Duration(time.Now().Nanosecond()))
	defer tick.Stop()
	for first := true; ; first = false {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		if first {
			tick.Reset(time.Second)
		}
		p.feed(read())
	}
}

// feed notes what has happened since it was fed before. At the first time it notes nothing, for
// it is not known when that happened.
func (p *past) feed(at time.Time, all []stat.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	second := at.Add(-time.Second / 2).Unix() // the one that has ended
	for i := range all {
		p.feedResource(second, &all[i])
	}
	for name, r := range p.resources {
		if r.round != p.round {
			p.used -= r.bytes
			delete(p.resources, name)
		}
	}
	if p.used > p.max {
		p.forget()
	}
}

func (p *past) feedResource(second int64, s *stat.Snapshot) {
	totals := counts{s.Pass, s.Block, s.Exception, s.WouldBlock}
	r := p.resources[s.Resource]
	if r == nil {
		r = new(resourcePast)
		if p.round == 1 {
			r.totals = totals
		}
		p.resources[s.Resource] = r
	}
	grown := totals
	grow(grown[:], r.totals[:])
	r.totals, r.round = totals, p.round
	demand := grown[pastPass] + grown[pastBlock]
	if demand > 0 || s.Concurrency+s.Waiting > 0 {
		r.called = second
		if r.hour == nil {
			r.begin()
		}
	}
	if r.hour == nil {
		return
	}
	var row [pastFigures]int64
	copy(row[:], grown[:])
	row[pastConcurrency], row[pastWaiting] = s.MaxConcurrency, s.Waiting
	for i, d := range [...]time.Duration{s.WaitP95, s.P50, s.P95, s.P99} {
		row[pastWaitP95+i] = history.PackTime(int64(d))
	}
	r.hour.Fill(second, row[:]...)
	r.minute.Fill(second, row[:]...)
	r.demand.Fill(second, demand)
	p.feedRules(second, r, grown, s.Rules)
	bytes := r.size()
	p.used += bytes - r.bytes
	r.bytes = bytes
}

// feedRules notes what the rules of a resource did while it got these calls.
func (p *past) feedRules(second int64, r *resourcePast, calls counts, rules []stat.RuleSnapshot) {
	for i := range rules {
		f := &rules[i]
		totals := ruleCounts{f.Blocked, f.WouldBlock, f.CandidateWouldBlock, f.Missing, f.Changes}
		past := r.rules[ruleKey{f.Kind, f.ID}]
		if past == nil {
			// What it counted before is not known, but it decided no more calls than there were.
			past = &rulePast{
				hour:   history.NewRow(stepSeconds, hourSteps, pastRuleBytes, pastRuleJoins[:]...),
				minute: history.NewRow(1, minuteSeconds, ruleMinuteBytes, ruleSecondJoins[:]...),
			}
			demand := calls[pastPass] + calls[pastBlock]
			for i, most := range [...]int64{calls[pastBlock], calls[pastWouldBlock], demand, demand, 0} {
				past.totals[i] = max(0, totals[i]-most)
			}
			past.seconds = secondCounts{max(0, f.Admitted-calls[pastPass]), past.totals[pastBlocked], past.totals[pastRuleWouldBlock], past.totals[pastCandidateWouldBlock]}
			r.rules[ruleKey{f.Kind, f.ID}] = past
		}
		grown := totals
		grow(grown[:], past.totals[:])
		past.totals, past.round, past.states = totals, p.round, f.States
		var row [pastRuleFigures]int64
		copy(row[:], grown[:])
		row[pastState] = int64(max(0, slices.Index(f.States, f.State)))
		row[pastThreshold], row[pastCandidate] = history.PackNumber(f.Threshold), history.PackNumber(f.Candidate)
		if f.Effective != f.Threshold {
			row[pastEffective] = 1 + history.PackLevel(f.Effective)
		}
		past.hour.Fill(second, row[:]...)
		seconds := secondCounts{f.Admitted, f.Blocked, f.WouldBlock, f.CandidateWouldBlock}
		since := seconds
		grow(since[:], past.seconds[:])
		past.seconds = seconds
		past.minute.Fill(second, since[:]...)
	}
	for key, past := range r.rules {
		if past.round != p.round {
			delete(r.rules, key)
		}
	}
}

// keeps reports whether there is any history of a resource.
func (p *past) keeps(resource string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resources[resource]
	return r != nil && r.hour != nil
}

func (r *resourcePast) begin() {
	r.hour = history.NewRow(stepSeconds, hourSteps, pastBytes, pastJoins[:]...)
	r.minute = history.NewRow(1, minuteSeconds, minuteBytes, pastJoins[:]...)
	r.demand = history.NewRow(1, hourSeconds, demandBytes, history.Sum)
	r.rules = make(map[ruleKey]*rulePast)
}

func (r *resourcePast) size() int {
	bytes := pastOverhead + r.hour.Bytes() + r.minute.Bytes() + r.demand.Bytes()
	for _, rule := range r.rules {
		bytes += pastOverhead + rule.hour.Bytes() + rule.minute.Bytes()
	}
	return bytes
}

// grow makes totals what they have grown by. Those that fell began anew.
func grow(now, before []int64) {
	for i := range now {
		if now[i] >= before[i] {
			now[i] -= before[i]
		}
	}
}

// forget makes room: a sixteenth of it at once, so that it is not sought every second. The caller
// holds mu.
func (p *past) forget() {
	var kept []*resourcePast
	for _, r := range p.resources {
		if r.hour != nil {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b *resourcePast) int { return cmp.Compare(a.called, b.called) })
	for _, r := range kept {
		if p.used <= p.max-p.max/16 {
			return
		}
		p.used -= r.bytes
		p.forgotten++
		*r = resourcePast{totals: r.totals, round: r.round, called: r.called}
	}
}
