package dashboard

import (
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/stat"
)

// number is a figure in JSON. A guard that a program brings may give one that is not finite,
// which is null.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	if a := math.Abs(f); a >= 1e15 || a != 0 && a < 1e-6 {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// millis is a measured duration in JSON: a number of milliseconds, to the microsecond.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) { return appendMillis(nil, time.Duration(m)), nil }

func appendMillis(b []byte, d time.Duration) []byte {
	return appendNumber(b, float64(d.Round(time.Microsecond).Microseconds())/1000)
}

// stamp is a time in JSON.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) { return appendStamp(nil, time.Time(s)), nil }

func appendStamp(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
}

// appendText appends a text. What is not UTF-8 in it becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // text can always be written
	}
	return append(b, text...)
}

// rawOf is a name that is not UTF-8 as it goes into a query; "" for all others, which go
// there as they are shown.
func rawOf(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return url.QueryEscape(name)
}

// figures are those of a resource that frames have. They compare.
type figures struct {
	passQPS, blockQPS, successQPS, exceptionQPS        float64
	avgRT, p50, p95, p99                               time.Duration
	concurrency                                        int64
	pass, block, success, exception, wouldBlock, rules int64
}

// figureColumns names what append appends, after the number of the row.
var figureColumns = []string{
	"row", "passQPS", "blockQPS", "successQPS", "exceptionQPS", "avgRT", "p50", "p95", "p99",
	"concurrency", "pass", "block", "success", "exception", "wouldBlock", "rules",
}

func figuresOf(s *stat.Snapshot) figures {
	return figures{
		passQPS: s.PassQPS, blockQPS: s.BlockQPS, successQPS: s.SuccessQPS, exceptionQPS: s.ExceptionQPS,
		avgRT: s.AvgRT, p50: s.P50, p95: s.P95, p99: s.P99,
		concurrency: s.Concurrency,
		pass:        s.Pass, block: s.Block, success: s.Success, exception: s.Exception,
		wouldBlock: s.WouldBlock, rules: int64(len(s.Rules)),
	}
}

func (f figures) append(b []byte) []byte {
	for _, rate := range [...]float64{f.passQPS, f.blockQPS, f.successQPS, f.exceptionQPS} {
		b = appendNumber(append(b, ','), rate)
	}
	for _, d := range [...]time.Duration{f.avgRT, f.p50, f.p95, f.p99} {
		b = appendMillis(append(b, ','), d)
	}
	for _, n := range [...]int64{f.concurrency, f.pass, f.block, f.success, f.exception, f.wouldBlock, f.rules} {
		b = strconv.AppendInt(append(b, ','), n, 10)
	}
	return b
}

// ruleKey is which rule it is.
type ruleKey struct{ kind, id string }

// sums are the figures of a rule over all resources that it binds. They compare.
type sums struct{ admitted, blocked, wouldBlock, candidateWouldBlock int64 }

var sumColumns = []string{"row", "admitted", "blocked", "wouldBlock", "candidateWouldBlock"}

func (s *sums) add(r *stat.RuleSnapshot) {
	s.admitted += r.Admitted
	s.blocked += r.Blocked
	s.wouldBlock += r.WouldBlock
	s.candidateWouldBlock += r.CandidateWouldBlock
}

func (s sums) append(b []byte) []byte {
	for _, n := range [...]int64{s.admitted, s.blocked, s.wouldBlock, s.candidateWouldBlock} {
		b = strconv.AppendInt(append(b, ','), n, 10)
	}
	return b
}
