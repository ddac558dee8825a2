package memory_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/memory"
)

// What rules read.
var _ interface{ Used() (int64, bool) } = (*memory.Sampler)(nil)

var errBroken = errors.New("broken")

type reader = func() (int64, error)

// machine is a reader whose answer the test sets.
type machine struct {
	answer atomic.Pointer[reader]
	begun  atomic.Int64
	inside atomic.Int64
	most   atomic.Int64 // readings at once
}

func (m *machine) read() (int64, error) {
	m.begun.Add(1)
	m.most.Store(max(m.most.Load(), m.inside.Add(1)))
	defer m.inside.Add(-1)
	return (*m.answer.Load())()
}

func (m *machine) does(r reader)   { m.answer.Store(&r) }
func (m *machine) gives(n int64)   { m.does(giving(n)) }
func (m *machine) fails(err error) { m.does(failing(err)) }

// hangs makes readings hang until the function that it returns is called.
func (m *machine) hangs(n int64) (release func()) {
	gate := make(chan struct{})
	m.does(func() (int64, error) { <-gate; return n, nil })
	return func() { close(gate) }
}

// log keeps what is logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// bubble is a sampler that reads a machine every second, in fake time.
type bubble struct {
	*machine
	*memory.Sampler
	log log
}

// under runs a test in a bubble whose machine gives what reader does, to begin with.
// The sampler is closed when the test is over.
func under(t *testing.T, reader reader, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{machine: &machine{}}
		b.does(reader)
		var err error
		b.Sampler, err = memory.Start(memory.Config{Reader: b.read, Logger: b.log.logger()})
		require.NoError(t, err)
		defer b.Close() // if the test fails
		test(b)
		require.NoError(t, b.Close())
		requireUnknown(t, b.Sampler)
		require.LessOrEqual(t, b.most.Load(), int64(1), "no two readings at once")
	})
}

func giving(n int64) reader    { return func() (int64, error) { return n, nil } }
func failing(err error) reader { return func() (int64, error) { return 99, err } }

// pass lets time go by, and all come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func requireUsed(t *testing.T, want int64, s *memory.Sampler) {
	t.Helper()
	used, known := s.Used()
	require.True(t, known)
	require.Equal(t, want, used)
}

func requireUnknown(t *testing.T, s *memory.Sampler) {
	t.Helper()
	used, known := s.Used()
	require.False(t, known)
	require.Zero(t, used)
}
