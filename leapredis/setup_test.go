package leapredis

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limiter is the methods of a RateLimiter.
type limiter interface {
	limit.Limiter
	limit.Settler
	limit.Describer
	limit.Remote
	Allow(ctx context.Context, key string) (limit.Decision, error)
	AllowLimit(ctx context.Context, key string, n, limit int64) (limit.Decision, error)
	AllowAtMost(ctx context.Context, key string, n int64) (limit.Decision, error)
	SetLimit(limit int64) error
	MaxLimit() int64
	SetPlans(byKey map[string]int64) error
	SetMode(mode rule.Mode) error
	Peek(ctx context.Context, key string) (limit.Decision, error)
	Reset(ctx context.Context, key string) error
	Stats() limit.Stats
	Link() Link
	Close() error
}

// kind is one of the limiters, under test.
type kind struct {
	name   string
	script string // of a decision
	make   func(Client, Config) (limiter, error)
	twin   func(limit.Config) (twin, error)
	t      *testing.T // see each
}

// twin is a limiter of package limit.
type twin interface {
	limit.Limiter
	limit.Settler
	AllowLimit(ctx context.Context, key string, n, limit int64) (limit.Decision, error)
	AllowAtMost(ctx context.Context, key string, n int64) (limit.Decision, error)
	SetLimit(limit int64) error
	Peek(key string) limit.Decision
	Reset(key string)
	Stats() limit.Stats
}

func makeCounter(c Client, cfg Config) (limiter, error) { return NewCounter(c, cfg) }

func makeBurst(c Client, cfg Config) (limiter, error) { return NewBurst(c, cfg) }

func makeLog(c Client, cfg Config) (limiter, error) { return NewLog(c, cfg) }

var kinds = []kind{
	{"Counter", "counter", makeCounter, func(cfg limit.Config) (twin, error) { return limit.NewCounter(cfg) }, nil},
	{"Log", "log", makeLog, func(cfg limit.Config) (twin, error) { return limit.NewLog(cfg) }, nil},
	{"Burst", "burst", makeBurst, func(cfg limit.Config) (twin, error) { return limit.NewBurst(cfg) }, nil},
}

// each runs a test for each kind, in fake time, which begins with a whole second.
func each(t *testing.T, f func(k kind)) {
	t.Helper()
	run(t, kinds, f)
}

// eachCount is each, but for bursts: what those hold is time, which is paid meanwhile.
func eachCount(t *testing.T, f func(k kind)) {
	t.Helper()
	run(t, slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.name == "Burst" }), f)
}

func run(t *testing.T, kinds []kind, f func(k kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k.t = t
				f(k)
			})
		})
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// start makes a limiter that ends with the test. Processes need not be counted unless cfg
// says so.
func (k kind) start(t testing.TB, client Client, cfg Config) limiter {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = "test:"
	}
	switch cfg.Instances {
	case 0:
		cfg.Instances = 1
	case count:
		cfg.Instances = 0
	}
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	l, err := k.make(client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// limiter is what errors call it.
func (k kind) limiter() string {
	switch k.name {
	case "Counter":
		return forCounter
	case "Burst":
		return forBurst
	}
	return forLog
}

// core returns the limiter with its inner parts.
func (k kind) core(l limiter) *RateLimiter {
	return l.(*RateLimiter)
}

// count as Config.Instances lets start leave them to be counted.
const count = -1

func counter(t testing.TB, client Client, cfg Config) *RateLimiter {
	t.Helper()
	return kinds[0].start(t, client, cfg).(*RateLimiter)
}

// allow asks for n and expects an answer.
func allow(t testing.TB, l limit.Limiter, key string, n int64) limit.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), key, n)
	require.NoError(t, err)
	return d
}

// admitted asks each of them a hundred times for one, and returns how many passed in all.
func admitted(t testing.TB, key string, all ...limiter) (n int) {
	t.Helper()
	for _, l := range all {
		for range 100 {
			if allow(t, l, key, 1).Allowed {
				n++
			}
		}
	}
	return n
}

func (s *server) called(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// held is what the server has counted for a key: in the last window, or in all of a log.
func (s *server) held(wire string) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.counters[wire]; c != nil {
		return c.current
	}
	if b := s.bursts[wire]; b != nil {
		return b.n
	}
	if l := s.logs[wire]; l != nil {
		for _, taken := range l.n {
			n += taken
		}
	}
	return n
}

// stuck is how many calls hang after their deadlines.
func stuck(l *link) (n int64) {
	l.servers.each(func(p *part) { n += p.stuck.Load() })
	return n
}
