package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
)

// subject is a limiter that is measured. None is near its limit.
type subject struct {
	name string
	// worker returns what a goroutine calls. It fails if the call is refused, or was
	// decided without the server.
	worker func() func(ctx context.Context, key string) error
	close  func()
	sent   *sent // what a limiter of Leapgate has the server do
	floor  bool  // that is measured by itself; others have the server do the same
}

// The subjects that others are compared with, by their places.
const (
	perCall   = 0
	redisRate = 6
)

const unreachable = 1 << 40

func makeSubjects(addr string) (all []*subject, err error) {
	defer func() {
		if err != nil {
			for _, s := range all {
				s.close()
			}
		}
	}()
	// A window that is over within the run, as all are; the next one begins with a share
	// of it.
	counter := leapredis.Config{Limit: unreachable, Window: 10 * time.Second}
	leases := func(n int64) leapredis.Config { cfg := counter; cfg.Lease = n; return cfg }
	for _, c := range []struct {
		name  string
		cfg   leapredis.Config
		build func(leapredis.Client, leapredis.Config) (*leapredis.RateLimiter, error)
		floor bool
		way   func(addr string) (leapredis.Client, func(), error)
	}{
		{name: "leapredis.NewCounter", cfg: counter, build: leapredis.NewCounter, floor: true, way: viaRueidis},
		{name: "leapredis.NewCounter, leases of 10", cfg: leases(10), build: leapredis.NewCounter, way: viaRueidis},
		{name: "leapredis.NewCounter, leases of 100", cfg: leases(100), build: leapredis.NewCounter, way: viaRueidis},
		// A log keeps every admission: some hundred for each key here.
		{name: "leapredis.NewLog", cfg: leapredis.Config{Limit: 1_000_000, Window: 100 * time.Millisecond}, build: leapredis.NewLog, floor: true, way: viaRueidis},
		{name: "leapredis.NewCounter through go-redis", cfg: counter, build: leapredis.NewCounter, way: viaGoRedis},
		{name: "leapredis.NewBurst", cfg: counter, build: leapredis.NewBurst, floor: true, way: viaRueidis},
	} {
		s, err := ours(c.name, c.cfg, c.build, addr, c.way)
		if err != nil {
			return all, err
		}
		s.floor = c.floor
		all = append(all, s)
	}
	all = append(all, newRedisRate(addr))
	s, err := newHTTPRate(addr)
	if err != nil {
		return all, err
	}
	return append(all, s), nil
}

func viaRueidis(addr string) (leapredis.Client, func(), error) {
	client, err := rueidis.NewClient(viarueidis.Options(addr))
	if err != nil {
		return nil, nil, err
	}
	return viarueidis.New(client), client.Close, nil
}

func viaGoRedis(addr string) (leapredis.Client, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	return viagoredis.New(client), func() { _ = client.Close() }, nil
}

func ours(
	name string, cfg leapredis.Config, build func(leapredis.Client, leapredis.Config) (*leapredis.RateLimiter, error),
	addr string, way func(string) (leapredis.Client, func(), error),
) (*subject, error) {
	client, hangUp, err := way(addr)
	if err != nil {
		return nil, err
	}
	s := &subject{name: name, sent: &sent{Client: client}}
	cfg.Name, cfg.Prefix = name, fmt.Sprintf("bench-%s:", name)
	cfg.Timeout = 10 * time.Second // that is not what is measured
	cfg.WhenAway = leapredis.Deny
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	l, err := build(s.sent, cfg)
	if err != nil {
		hangUp()
		return nil, err
	}
	s.close = func() {
		_ = l.Close()
		hangUp()
	}
	s.worker = func() func(context.Context, string) error {
		return func(ctx context.Context, key string) error {
			d, err := l.AllowN(ctx, key, 1)
			if err == nil && (!d.Allowed || d.Degraded) {
				err = fmt.Errorf("it says %+v", d)
			}
			return err
		}
	}
	return s, nil
}

// sent is a client that remembers the first script. It is told its text since it does as if
// the server did not know it.
type sent struct {
	leapredis.Client
	asked, told    sync.Once
	text, key, arg string
}

func (s *sent) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	first := false
	if len(args) > 0 { // else it is no decision
		s.asked.Do(func() { first, s.key, s.arg = true, key, args[0] })
	}
	if first {
		return nil, &leapredis.ReplyError{Text: "NOSCRIPT"}
	}
	return s.Client.EvalSHA(ctx, sha, key, args...)
}

func (s *sent) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	if len(args) > 0 {
		s.told.Do(func() { s.text = script })
	}
	return s.Client.Eval(ctx, script, key, args...)
}

// command is what redis-benchmark can send to have the same done. The argument of a
// decision is bytes, which no command line can have. So it stands in the script, and what
// is sent in its place is as long.
func (s *sent) command(server *redistest.Server) ([]string, error) {
	var literal strings.Builder
	for _, b := range []byte(s.arg) {
		fmt.Fprintf(&literal, "\\%03d", b)
	}
	sha, err := server.Do("SCRIPT", "LOAD", strings.Replace(s.text, "ARGV[1])", "'"+literal.String()+"')", 1))
	if err != nil {
		return nil, err
	}
	return []string{sha.(string), "1", s.key, strings.Repeat("x", len(s.arg))}, nil
}

func newRedisRate(addr string) *subject {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	limiter := redis_rate.NewLimiter(client)
	most := redis_rate.Limit{Rate: 1e9, Burst: 1e9, Period: time.Second}
	return &subject{
		name:  "redis_rate",
		close: func() { _ = client.Close() },
		worker: func() func(context.Context, string) error {
			return func(ctx context.Context, key string) error {
				r, err := limiter.Allow(ctx, key, most)
				if err == nil && r.Allowed != 1 {
					err = fmt.Errorf("it says %+v", r)
				}
				return err
			}
		},
	}
}

func newHTTPRate(addr string) (*subject, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	counter, err := httprateredis.NewRedisLimitCounter(&httprateredis.Config{
		Host: host, Port: uint16(number), WindowLength: 10 * time.Second, FallbackDisabled: true, FallbackTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	limiter := httprate.NewRateLimiter(1<<31-1, 10*time.Second, httprate.WithLimitCounter(counter))
	return &subject{
		name:  "httprate-redis",
		close: func() {}, // it has no way to
		worker: func() func(context.Context, string) error {
			w := discard{}
			r, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
			return func(ctx context.Context, key string) error {
				if err == nil && limiter.OnLimit(w, r.WithContext(ctx), key) {
					return errors.New("it refuses")
				}
				return err
			}
		},
	}, nil
}

// discard is a response that nobody reads.
type discard http.Header

func (w discard) Header() http.Header         { return http.Header(w) }
func (w discard) Write(b []byte) (int, error) { return len(b), nil }
func (w discard) WriteHeader(int)             {}
