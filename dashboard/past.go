package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/dashboard/internal/history"
	"github.com/leapgate-go/leapgate/stat"
)

// What is kept of the past: an hour in steps of 5 s, how many calls wanted in each second of it,
// and the last minute by seconds.
const (
	stepSeconds   = 5
	hourSteps     = 3600 / stepSeconds
	hourSeconds   = 3600
	minuteSeconds = 60

	pastBytes     = 15<<10 + 512 // at most, of the steps of the hour
	demandBytes   = 13 << 10
	minuteBytes   = 2 << 10
	pastRuleBytes = 5<<10 + 512

	ruleMinuteBytes = 512

	pastOverhead     = 1280 // what a resource takes besides its steps, about
	pastRuleOverhead = 512

	maxGoneRules = 5 // of a resource, whose steps are kept
	maxBack      = 2 * stepSeconds
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
// a bounded memory. A resource that was evicted is kept as long as there is room, and goes on if it
// comes again; and so is a rule that was removed.
type past struct {
	max int // bytes

	mu        sync.Mutex
	resources map[string]*resourcePast // all of the gate, and some that are gone
	used      int                      // bytes
	forgotten int64                    // resources
	round     int64                    // of feeding; 0 before the first
	second    int64                    // that was fed last

	load loadPast

	full bool // the histories of busy resources do not all fit
}

type resourcePast struct {
	name   string
	serial int64 // of its tenure; 0 if it is gone
	totals counts
	seen   []ruleTotals // of the rules that bound it last, in their order
	round  int64        // in which it was fed last
	called int64        // the second in which it was called last

	*rowsPast // nil while nothing is kept
}

// rowsPast is what a resource and its rules did.
type rowsPast struct {
	began                int64 // the second
	hour, minute, demand *history.Row
	rules                map[ruleKey]*rulePast
	bytes                int
}

type rulePast struct {
	states []string
	round  int64 // in which it was fed last
	hour   *history.Row
	minute *history.Row
}

// ruleTotals are those of a rule on a resource as long as it goes on counting.
type ruleTotals struct {
	serial   int64
	admitted int64
	ruleCounts
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
	if second < p.second-maxBack {
		p.beginAnew() // times that come again would not be told from those that were
	}
	p.second = second
	p.full = p.full && p.used > p.max/8*7
	for i := range all {
		p.feedResource(&all[i])
	}
	for name, r := range p.resources {
		if r.round == p.round {
			continue
		}
		r.serial, r.totals = 0, counts{}
		if r.rowsPast == nil || r.called < second-hourSeconds {
			p.drop(r)
			delete(p.resources, name)
			continue
		}
		for _, row := range [...]*history.Row{r.hour, r.minute, r.demand} {
			row.Until(second)
		}
		r.forgetRules(p)
		p.measure(r)
	}
	p.makeRoom()
}

// feedResource takes the figures of a resource, with totals that go up as long as its tenure does.
func (p *past) feedResource(s *stat.Snapshot) {
	r := p.resources[s.Resource]
	if r == nil {
		r = &resourcePast{name: s.Resource}
		p.resources[s.Resource] = r
	}
	if r.serial != s.Serial {
		r.totals = counts{}
	}
	totals := counts{s.Pass, s.Block, s.Exception, s.WouldBlock}
	if p.round == 1 {
		r.totals = totals
	}
	grown := totals
	grow(grown[:], r.totals[:])
	r.serial, r.round = s.Serial, p.round
	demand := grown[pastPass] + grown[pastBlock]
	if demand > 0 || s.Concurrency+s.Waiting > 0 {
		r.called = p.second
		if r.rowsPast == nil && p.roomFor(pastOverhead+len(s.Rules)*pastRuleOverhead) {
			r.rowsPast = newRowsPast(p.second)
		}
	}
	if r.rowsPast == nil {
		r.noteRules(p, s, nil)
		return
	}
	var row [pastFigures]int64
	copy(row[:], grown[:])
	row[pastConcurrency], row[pastWaiting] = s.MaxConcurrency, s.MaxWaiting
	for i, d := range [...]time.Duration{s.WaitP95, s.P50, s.P95, s.P99} {
		row[pastWaitP95+i] = history.PackTime(int64(d))
	}
	r.hour.Fill(p.second, row[:]...)
	r.minute.Fill(p.second, row[:]...)
	r.demand.Fill(p.second, demand)
	r.noteRules(p, s, r.fillRule)
	r.forgetRules(p)
	p.measure(r)
}

// grow makes totals what they have grown by, and takes what they are now. Those that are read a
// moment too early may be lower than before: nothing is noted twice.
func grow(now, before []int64) {
	for i := range now {
		total := max(now[i], before[i])
		now[i], before[i] = total-before[i], total
	}
}

// noteRules passes what the counts of each rule have grown by to note, unless note is nil.
func (r *resourcePast) noteRules(p *past, s *stat.Snapshot, note func(p *past, f *stat.RuleSnapshot, grown ruleCounts, admitted int64)) {
	before := r.seen
	if !slices.EqualFunc(before, s.RuleSerials, func(a ruleTotals, serial int64) bool { return a.serial == serial }) {
		r.seen = make([]ruleTotals, len(s.Rules))
	}
	for i := range s.Rules {
		f, serial := &s.Rules[i], s.RuleSerials[i]
		totals := ruleCounts{f.Blocked, f.WouldBlock, f.CandidateWouldBlock, f.Missing, f.Changes}
		known := ruleTotals{serial: serial}
		at := i
		if at >= len(before) || before[at].serial != serial {
			at = slices.IndexFunc(before, func(a ruleTotals) bool { return a.serial == serial })
		}
		switch {
		case at >= 0:
			known = before[at]
		case p.round == 1:
			known.ruleCounts, known.admitted = totals, f.Admitted
		}
		grown := totals
		grow(grown[:], known.ruleCounts[:])
		total := max(f.Admitted, known.admitted)
		admitted := total - known.admitted
		known.admitted = total
		r.seen[i] = known
		if note != nil {
			note(p, f, grown, admitted)
		}
	}
}

// fillRule notes what a rule did.
func (r *rowsPast) fillRule(p *past, f *stat.RuleSnapshot, grown ruleCounts, admitted int64) {
	key := ruleKey{f.Kind, f.ID}
	past := r.rules[key]
	if past == nil {
		past = &rulePast{
			hour:   history.NewRow(stepSeconds, hourSteps, pastRuleBytes, pastRuleJoins[:]...),
			minute: history.NewRow(1, minuteSeconds, ruleMinuteBytes, ruleSecondJoins[:]...),
		}
		r.rules[key] = past
	}
	past.round, past.states = p.round, f.States
	var row [pastRuleFigures]int64
	copy(row[:], grown[:])
	row[pastState] = int64(max(0, slices.Index(f.States, f.State)))
	row[pastThreshold], row[pastCandidate] = history.PackNumber(f.Threshold), history.PackNumber(f.Candidate)
	if f.Effective != f.Threshold {
		row[pastEffective] = 1 + history.PackLevel(f.Effective)
	}
	past.hour.Fill(p.second, row[:]...)
	past.minute.Fill(p.second, admitted, grown[pastBlocked], grown[pastRuleWouldBlock], grown[pastCandidateWouldBlock])
}

// keeps reports whether there is any history of a resource.
func (p *past) keeps(name string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resources[name]
	return r != nil && r.rowsPast != nil
}

func newRowsPast(second int64) *rowsPast {
	return &rowsPast{
		began:  second,
		hour:   history.NewRow(stepSeconds, hourSteps, pastBytes, pastJoins[:]...),
		minute: history.NewRow(1, minuteSeconds, minuteBytes, pastJoins[:]...),
		demand: history.NewRow(1, hourSeconds, demandBytes, history.Sum),
		rules:  make(map[ruleKey]*rulePast),
	}
}

func (r *rowsPast) size() int {
	bytes := pastOverhead + r.hour.Bytes() + r.minute.Bytes() + r.demand.Bytes()
	for _, rule := range r.rules {
		bytes += pastRuleOverhead + rule.hour.Bytes() + rule.minute.Bytes()
	}
	return bytes
}
