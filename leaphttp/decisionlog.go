package leaphttp

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/charging"
)

// maxDecisions is how many bytes of a [Config.DecisionLog] may wait to be written.
const maxDecisions = 1 << 20

// decision is a line of the log.
type decision struct {
	At       time.Time `json:"at"`
	Resource string    `json:"resource,omitempty"`
	Key      string    `json:"key,omitempty"`
	Nanos    int64     `json:"nanos,omitempty"`
	Status   int       `json:"status,omitempty"`
	Refused  string    `json:"refused,omitempty"` // by which policy or rule
	Dropped  int       `json:"dropped,omitempty"` // lines before this one, which is about nothing else
}

// decisionLog writes lines without ever making a request wait: a goroutine writes as long as
// there are any.
type decisionLog struct {
	to     io.Writer
	logger func() *slog.Logger

	mu      sync.Mutex // guards what is below
	waiting []byte
	spare   []byte // memory for what will wait
	dropped int
	writing bool // there is a goroutine
	logged  time.Time
}

func newDecisionLog(to io.Writer, logger *slog.Logger) *decisionLog {
	if to == nil {
		return nil
	}
	return &decisionLog{to: to, logger: charging.LoggerOf(logger)}
}

// add adds a line, unless too many wait.
func (l *decisionLog) add(d decision) {
	line, err := json.Marshal(d)
	if err != nil {
		return // a year beyond 9999
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting)+len(line) >= maxDecisions {
		l.dropped++
		return
	}
	if l.dropped > 0 {
		note, _ := json.Marshal(decision{At: d.At, Dropped: l.dropped})
		l.waiting = append(append(l.waiting, note...), '\n')
		l.dropped = 0
	}
	l.waiting = append(append(l.waiting, line...), '\n')
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write writes all lines that wait.
func (l *decisionLog) write() {
	done := false
	defer func() {
		if !done { // the writer has panicked, or ended the goroutine
			l.mu.Lock()
			l.writing = false
			l.mu.Unlock()
		}
	}()
	l.mu.Lock()
	for len(l.waiting) > 0 {
		lines := l.waiting
		l.waiting = l.spare[:0]
		l.mu.Unlock()
		_, err := l.to.Write(lines)
		l.mu.Lock()
		l.spare = lines
		if now := time.Now(); err != nil && (l.logged.IsZero() || now.Sub(l.logged) >= time.Minute) {
			l.logged = now
			l.logger().Error("leaphttp: the decision log cannot be written", "error", err)
		}
	}
	l.writing, done = false, true
	l.mu.Unlock()
}

// log adds what became of a request.
func (m *middleware) log(rec *recorder, r *http.Request, at time.Time, refusal *Refusal) {
	d := decision{At: at.UTC(), Resource: rec.resource, Key: strings.TrimPrefix(m.keyOf(rec, r), charging.UnknownKey), Nanos: int64(time.Since(at)), Status: rec.status}
	if d.Resource == "" { // the gate was not asked
		d.Resource = nameOf(m.routeOf(r), r.Method)
	}
	switch {
	case refusal == nil && d.Status == 0:
		d.Status = http.StatusOK
	case refusal != nil:
		d.Status, d.Refused = refusal.Status, refusal.by()
	}
	m.decisions.add(d)
}

// keyOf is the key by which the first limit counts a request; without limits, the address of
// the peer.
func (m *middleware) keyOf(rec *recorder, r *http.Request) string {
	if len(m.limits.All) == 0 {
		return LimiterKey(peerKey(r))
	}
	first := m.limits.All[0]
	for i := range rec.charges {
		if rec.charges[i].By == first {
			return rec.charges[i].Key
		}
	}
	return LimiterKey(first.Key(r))
}

// by is which policy or rule refused.
func (r *Refusal) by() string {
	switch {
	case len(r.Policies) > 0:
		return r.Policies[0]
	case r.Block != nil:
		return r.Block.RuleID
	default:
		return "unavailable"
	}
}
