//go:build e2e

package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/e2e/internal/lateness"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// load is some goroutines that ask a limiter all the time, and what they were told.
type load struct {
	t       *testing.T
	stop    func()
	done    sync.WaitGroup
	timeout time.Duration
	late    *lateness.Meter

	mu      sync.Mutex // guards what is below
	answers []answer
	errors  []error
}

// answer is what a call was told.
type answer struct {
	began, ended time.Time
	limit.Decision
}

const askers = 8

// askFor begins to ask for one of hot. timeout is how long the limiter waits for a server.
func askFor(t *testing.T, l limit.Limiter, timeout time.Duration) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	all := &load{t: t, stop: stop, timeout: timeout, late: lateness.Measure(ctx, askers, timeout/4)}
	t.Cleanup(func() { stop(); all.done.Wait() })
	for range askers {
		all.done.Go(func() { all.loop(ctx, l) })
	}
	return all
}

func (l *load) loop(ctx context.Context, limiter limit.Limiter) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		<-timer.C
		began := time.Now()
		d, err := limiter.AllowN(context.Background(), hot, 1)
		ended := time.Now()
		l.mu.Lock()
		l.answers = append(l.answers, answer{began, ended, d})
		if err != nil {
			l.errors = append(l.errors, err)
		}
		l.mu.Unlock()
		timer.Reset(2 * time.Millisecond)
	}
}

// end stops, and returns all answers in the order in which they came.
func (l *load) end() []answer {
	l.t.Helper()
	l.stop()
	l.done.Wait()
	require.Empty(l.t, l.errors, "a server that is away is no error")
	return l.answers
}

// since returns the answers of calls that began then or later.
func (l *load) since(at time.Time) (all []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if !a.began.Before(at) {
			all = append(all, a)
		}
	}
	return all
}

func longest(all []answer) (d time.Duration) {
	for _, a := range all {
		d = max(d, a.ended.Sub(a.began))
	}
	return d
}

func count(all []answer, which func(answer) bool) (n int64) {
	for _, a := range all {
		if which(a) {
			n++
		}
	}
	return n
}

func shared(a answer) bool   { return !a.Degraded }
func degraded(a answer) bool { return a.Degraded }
func admitted(a answer) bool { return a.Allowed && !a.Degraded }

// notInTime says so if a call took longer than its time and 10 ms, and twice as much as
// timers alone were late meanwhile: a call waits for more than one thing, and on a machine
// that is busy each of them may be late.
func (l *load) notInTime(what string) (doubts []string) {
	most, late := longest(l.answers), l.late.Wait()
	l.t.Logf("%s: of %d calls, the longest took %v, with %v for the server; timers alone were up to %v late",
		what, len(l.answers), most.Round(100*time.Microsecond), l.timeout, late.Round(100*time.Microsecond))
	if may := l.timeout + 10*time.Millisecond + 2*late; most > may {
		doubts = append(doubts, fmt.Sprintf("a call took %v, and may take %v", most, may))
	}
	return doubts
}

// notBackInTime says so if a call was decided without the server that began later than a
// second after it was back. What was on a slow line then may be as slow as before.
func (l *load) notBackInTime(back time.Time) (doubts []string) {
	last := time.Duration(0)
	for _, a := range l.answers {
		if a.Degraded {
			last = max(last, a.began.Sub(back))
		}
	}
	l.t.Logf("nothing is decided without the server from %v after its return on", last.Round(time.Millisecond))
	if may := time.Second + 2*l.late.Wait() + 4*(l.timeout-leapredis.DefaultTimeout); last > may {
		doubts = append(doubts, fmt.Sprintf("a call was decided without the server %v after its return, and may be %v after it", last, may))
	}
	return doubts
}

// journal keeps what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + fmt.Sprint(a); return true })
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	return nil
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}
