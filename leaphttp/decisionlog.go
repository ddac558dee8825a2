package leaphttp

import (
	"bytes"
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
	Cost     int64     `json:"cost,omitempty"` // that it took of the limit that counts by the key, if more than 1
	Nanos    int64     `json:"nanos,omitempty"`
	Status   int       `json:"status,omitempty"`
	Refused  string    `json:"refused,omitempty"` // by which policy or rule
	Dropped  int       `json:"dropped,omitempty"` // lines that were lost; the line is about nothing else
}

// decisionLog writes lines without ever making a request wait: a goroutine writes as long as
// there are any.
type decisionLog struct {
	to     io.Writer
	logger func() *slog.Logger

	mu      sync.Mutex // guards what is below
	waiting []byte
	spare   []byte // memory for what will wait
	dropped int    // not yet told
	torn    bool   // a part of a line may be the last that was written
	writing bool   // there is a goroutine
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
	l.waiting = append(append(l.waiting, line...), '\n')
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write writes all lines that wait.
func (l *decisionLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.writing = false }() // also if the writer has panicked, or ended the goroutine
	for len(l.waiting) > 0 {
		if err := l.writeWaiting(); err != nil {
			if now := time.Now(); l.logged.IsZero() || now.Sub(l.logged) >= time.Minute {
				l.logged = now
				l.logger().Error("leaphttp: the decision log cannot be written", "error", err)
			}
		}
	}
}

// writeWaiting writes the lines that wait now, and in a line of its own how many were lost before
// that; mu is free meanwhile. The lines of which the writer has not taken all are lost.
func (l *decisionLog) writeWaiting() (err error) {
	lines, told := l.waiting, l.dropped
	if told > 0 {
		note, _ := json.Marshal(decision{At: time.Now().UTC(), Dropped: told})
		lines = append(append(lines, note...), '\n')
	}
	begin := 0
	if l.torn { // what follows is a line all the same
		lines, begin = append([]byte{'\n'}, lines...), 1
	}
	l.waiting, l.dropped = l.spare[:0], 0
	l.mu.Unlock()
	n, returned := 0, false
	defer func() {
		l.mu.Lock()
		l.spare = lines
		if n = min(max(n, 0), len(lines)); n < len(lines) {
			if l.dropped += bytes.Count(lines[max(n, begin):], []byte{'\n'}); told > 0 {
				l.dropped += told - 1 // the note is the last of them
			}
		}
		if !returned {
			l.torn = true // the writer has panicked, or ended the goroutine
		} else if n > 0 {
			l.torn = lines[n-1] != '\n'
		}
	}()
	n, err = l.to.Write(lines)
	if returned = true; err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	return err
}

// log adds what became of a request.
func (m *middleware) log(rec *recorder, r *http.Request, at time.Time, refusal *Refusal) {
	key, cost := m.counted(rec, r)
	d := decision{At: at.UTC(), Resource: rec.resource, Key: strings.TrimPrefix(key, charging.UnknownKey), Nanos: int64(time.Since(at)), Status: rec.status}
	if cost > 1 {
		d.Cost = cost
	}
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

// counted is the key by which the first limit counts a request, and how much; without limits, the
// address of the peer.
func (m *middleware) counted(rec *recorder, r *http.Request) (key string, cost int64) {
	if len(m.limits.All) == 0 {
		return LimiterKey(peerKey(r)), 1
	}
	first := m.limits.All[0]
	for i := range rec.charges {
		if c := &rec.charges[i]; c.By == first {
			if settled := rec.settled.Load(); settled > 0 && first.Cost != nil {
				return c.Key, settled - 1
			}
			return c.Key, c.N
		}
	}
	return LimiterKey(first.Key(r)), 1
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
