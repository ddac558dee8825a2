package dashboard

import (
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// resourceFigures are those of a resource that frames have. They compare.
type resourceFigures struct {
	passQPS, blockQPS, successQPS, exceptionQPS        float64
	avgRT, p50, p95, p99                               time.Duration
	concurrency                                        int64
	pass, block, success, exception, wouldBlock, rules int64

	waiting int64
	waitP95 time.Duration
	// refusedBy is the row of the rule that refused last, use the largest share of a rule's limit that is
	// in use, fullest the row of that rule, and limit the lowest bound of passes per second; 0 if there is none.
	refusedBy, fullest int64
	use, limit         float64
}

// resourceColumns names what append appends, after the number of the row.
var resourceColumns = []string{
	"row", "passQPS", "blockQPS", "successQPS", "exceptionQPS", "avgRT", "p50", "p95", "p99",
	"concurrency", "pass", "block", "success", "exception", "wouldBlock", "rules",
	"waiting", "waitP95", "refusedBy", "use", "fullest", "limit",
}

func figuresOf(s *stat.Snapshot) resourceFigures {
	return resourceFigures{
		passQPS: s.PassQPS, blockQPS: s.BlockQPS, successQPS: s.SuccessQPS, exceptionQPS: s.ExceptionQPS,
		avgRT: s.AvgRT, p50: s.P50, p95: s.P95, p99: s.P99,
		concurrency: s.Concurrency,
		pass:        s.Pass, block: s.Block, success: s.Success, exception: s.Exception,
		wouldBlock: s.WouldBlock, rules: int64(len(s.Rules)),
		waiting: s.Waiting, waitP95: s.WaitP95,
	}
}

func (f resourceFigures) append(b []byte) []byte {
	for _, rate := range [...]float64{f.passQPS, f.blockQPS, f.successQPS, f.exceptionQPS} {
		b = appendNumber(append(b, ','), rate)
	}
	for _, d := range [...]time.Duration{f.avgRT, f.p50, f.p95, f.p99} {
		b = appendMillis(append(b, ','), d)
	}
	for _, n := range [...]int64{f.concurrency, f.pass, f.block, f.success, f.exception, f.wouldBlock, f.rules} {
		b = strconv.AppendInt(append(b, ','), n, 10)
	}
	b = strconv.AppendInt(append(b, ','), f.waiting, 10)
	b = appendMillis(append(b, ','), f.waitP95)
	b = strconv.AppendInt(append(b, ','), f.refusedBy, 10)
	b = appendNumber(append(b, ','), f.use)
	b = strconv.AppendInt(append(b, ','), f.fullest, 10)
	return appendNumber(append(b, ','), f.limit)
}

type ruleKey struct{ kind, id string }

// ruleFigures are those of a rule over all resources that it binds. They compare.
type ruleFigures struct {
	admitted, blocked, wouldBlock, candidateWouldBlock int64

	resources   int64   // that the rule binds
	unnamed     int64   // of these, the resource other
	used        int64   // of effective, on the one that uses most of it
	effective   float64 // there
	interval    time.Duration
	lastRefusal int64 // in ms since 1970; 0 if there was none
	missing     int64 // calls without the argument
	moved       bool  // whether effective is another one than the threshold
}

var ruleColumns = []string{
	"row", "admitted", "blocked", "wouldBlock", "candidateWouldBlock", "resources", "used", "effective", "interval", "lastRefusal", "withoutArgument", "moved",
}

func (f *ruleFigures) add(name string, r *stat.RuleSnapshot) {
	if name == resource.Other {
		f.unnamed++
	}
	f.admitted += r.Admitted
	f.blocked += r.Blocked
	f.wouldBlock += r.WouldBlock
	f.candidateWouldBlock += r.CandidateWouldBlock
	if f.resources == 0 || float64(r.Used)*f.effective > float64(f.used)*r.Effective {
		f.used, f.effective, f.interval, f.moved = r.Used, r.Effective, r.Interval, r.Effective != r.Threshold
	}
	f.resources++
	f.missing += r.Missing
	if at := r.LastRefusal.At; !at.IsZero() {
		f.lastRefusal = max(f.lastRefusal, at.UnixMilli())
	}
}

func (f ruleFigures) append(b []byte) []byte {
	for _, n := range [...]int64{f.admitted, f.blocked, f.wouldBlock, f.candidateWouldBlock, f.resources - f.unnamed, f.used} {
		b = strconv.AppendInt(append(b, ','), n, 10)
	}
	b = appendMillis(append(appendNumber(append(b, ','), f.effective), ','), f.interval)
	b = strconv.AppendInt(append(b, ','), f.lastRefusal, 10)
	b = strconv.AppendInt(append(b, ','), f.missing, 10)
	if f.moved {
		return append(b, ",1"...)
	}
	return append(b, ",0"...)
}
