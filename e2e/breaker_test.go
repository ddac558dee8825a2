//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

// How a backend does.
const (
	well int32 = iota
	fails
	hangs // it accepts, and says nothing
)

// backend is a server that does well or not, and a client of it whose calls a breaker guards.
type backend struct {
	t      *testing.T
	does   atomic.Int32
	url    string
	gate   *leapgate.Gate
	client *http.Client

	opened atomic.Pointer[opening]
}

// opening is the last time that the breaker opened, and what there was by then.
type opening struct {
	at        time.Time
	reason    string
	completed int64
}

func newBackend(t *testing.T, rules ...breaker.Rule) *backend {
	t.Helper()
	b := &backend{t: t}
	b.url = start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch b.does.Load() {
		case fails:
			w.WriteHeader(http.StatusInternalServerError)
		case hangs:
			<-r.Context().Done()
		}
	})).URL
	b.gate = leapgate.Must(leapgate.Config{OnChange: func(c leapgate.Change) {
		if c.To == "open" {
			b.opened.Store(&opening{c.At, c.Reason, of(b.gate, "backend").Success})
		}
	}})
	b.client = client(t, b.gate, 30*time.Second, &http.Transport{MaxIdleConnsPerHost: 100})
	b.load(rules...)
	return b
}

func (b *backend) load(rules ...breaker.Rule) {
	b.t.Helper()
	for i := range rules {
		rules[i].Resource = "backend"
	}
	require.NoError(b.t, b.gate.LoadRules(leapgate.Rules{Breaker: rules}))
}

// get sends a request, but reads nothing of the response.
func (b *backend) get(ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return b.client.Do(r)
}

// call makes a call from its begin to its end.
func (b *backend) call(ctx context.Context) error {
	response, err := b.get(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func (b *backend) state() string { return of(b.gate, "backend").Rules[0].State }

// opens lets calls fail until the breaker is open.
func (b *backend) opens() {
	b.t.Helper()
	b.does.Store(fails)
	for b.state() != "open" {
		require.NoError(b.t, b.call(b.t.Context()))
	}
}

// admits makes calls until one is admitted, and returns what becomes of it.
func (b *backend) admits(ctx context.Context) error {
	b.t.Helper()
	var err error
	require.Eventually(b.t, func() bool {
		err = b.call(ctx)
		return !errors.Is(err, leapgate.ErrBlocked)
	}, 10*time.Second, 5*time.Millisecond)
	return err
}

// closes requires that the breaker closes, now that the backend does well.
func (b *backend) closes() {
	b.t.Helper()
	b.does.Store(well)
	require.Eventually(b.t, func() bool {
		_ = b.call(b.t.Context())
		return b.state() == "closed"
	}, 10*time.Second, 5*time.Millisecond)
}

// TestBreaker_ServerThatHangs: it accepts, and says nothing, and clients would wait for 30 s. The
// breaker opens before a single call has come back, what comes then is refused at once, and it
// closes when the server answers again.
func TestBreaker_ServerThatHangs(t *testing.T) {
	t.Parallel()
	const (
		slowAfter = time.Second
		openFor   = 2 * time.Second
		margin    = time.Second // for a machine that is busy
	)
	b := newBackend(t, breaker.Rule{SlowRatio: 0.5, SlowAfter: slowAfter, OpenFor: openFor, Probes: 2})
	b.does.Store(hangs)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var all sync.WaitGroup
	began := time.Now()
	for i := 0; b.opened.Load() == nil; i++ {
		require.Less(t, time.Since(began), 20*time.Second)
		all.Go(func() { _ = b.call(ctx) })
		if i > 20 { // the first come at once
			time.Sleep(5 * time.Millisecond)
		}
	}
	opened := b.opened.Load()
	took := opened.at.Sub(began)
	t.Logf("open after %v: %s", took, opened.reason)
	require.Zero(t, opened.completed)
	require.GreaterOrEqual(t, took, slowAfter)
	require.LessOrEqual(t, took, slowAfter*11/10+margin)

	var refusals []time.Duration
	for len(refusals) < 1000 && time.Since(opened.at) < openFor/2 { // no probe is among them
		began := time.Now()
		err := b.call(ctx)
		refusals = append(refusals, time.Since(began))
		blocked, ok := errors.AsType[*leapgate.BlockError](err)
		require.True(t, ok, err)
		require.Equal(t, "breaker", blocked.Kind)
		require.LessOrEqual(t, blocked.RetryAfter, openFor)
	}
	require.NotEmpty(t, refusals)
	slices.Sort(refusals)
	median := refusals[len(refusals)/2]
	t.Logf("%d calls were refused, in %v each", len(refusals), median)
	require.Less(t, median, 5*time.Millisecond)

	b.closes()
	require.NoError(t, b.call(ctx))
	giveUp() // those that hang end now, far too late to be judged
	all.Wait()
	require.Equal(t, "closed", b.state())
	require.Zero(t, of(b.gate, "backend").Concurrency)
}

// TestBreaker_ProbesThatSayNothing: whatever becomes of a probe, the breaker is not stuck.
func TestBreaker_ProbesThatSayNothing(t *testing.T) {
	t.Parallel()
	rule := breaker.Rule{
		ID: "b", ErrorRatio: 0.5, MinCalls: 5, OpenFor: 100 * time.Millisecond, Probes: 1, ProbeTimeout: 300 * time.Millisecond,
	}
	// gone runs a function in a goroutine of its own, to its end.
	gone := func(f func()) {
		var one sync.WaitGroup
		one.Go(f)
		one.Wait()
	}
	for name, probe := range map[string]func(t *testing.T, ctx context.Context, b *backend){
		"its goroutine ends": func(t *testing.T, _ context.Context, b *backend) {
			t.Helper()
			entered := false
			for !entered {
				gone(func() {
					_ = b.gate.Do(t.Context(), "backend", func(context.Context) error {
						entered = true
						runtime.Goexit()
						return nil
					})
				})
			}
			require.Equal(t, "open", b.state(), "that is a failure")
		},
		"its goroutine ends, and nobody reads the response": func(t *testing.T, ctx context.Context, b *backend) {
			t.Helper()
			b.does.Store(well)
			entered := false
			for !entered {
				gone(func() {
					response, err := b.get(ctx) //nolint:bodyclose // that is the point
					entered = err == nil && response != nil
					runtime.Goexit()
				})
			}
		},
		"another rule refuses it": func(t *testing.T, ctx context.Context, b *backend) {
			t.Helper()
			b.load(rule, breaker.Rule{ID: "switch", ErrorRatio: 1, Force: breaker.Open})
			require.Eventually(t, func() bool {
				require.ErrorIs(t, b.call(ctx), leapgate.ErrBlocked)
				return b.state() == "half-open"
			}, 10*time.Second, 5*time.Millisecond)
			b.does.Store(well)
			b.load(rule)
			require.NoError(t, b.call(ctx), "its place is free")
			require.Equal(t, "closed", b.state())
		},
		"its caller cancels": func(t *testing.T, ctx context.Context, b *backend) {
			t.Helper()
			b.load(breaker.Rule{ID: "b", ErrorRatio: 0.5, MinCalls: 5, OpenFor: 100 * time.Millisecond, Probes: 1, ProbeTimeout: time.Minute})
			b.does.Store(hangs)
			soon, cancel := context.WithCancel(ctx)
			go func() {
				for b.state() != "half-open" {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			require.ErrorIs(t, b.admits(soon), context.Canceled)
			require.Equal(t, "half-open", b.state())
			b.does.Store(well)
			require.NoError(t, b.call(ctx), "its place is free")
			require.Equal(t, "closed", b.state())
		},
		"it never ends": func(t *testing.T, ctx context.Context, b *backend) {
			t.Helper()
			b.does.Store(hangs)
			go func() {
				for errors.Is(b.call(ctx), leapgate.ErrBlocked) {
					time.Sleep(time.Millisecond)
				}
			}()
			require.Eventually(t, func() bool { return b.state() == "half-open" }, 10*time.Second, time.Millisecond)
			require.ErrorIs(t, b.call(ctx), leapgate.ErrBlocked)
			require.Eventually(t, func() bool { return b.state() == "open" }, 10*time.Second, time.Millisecond)
			last := of(b.gate, "backend").Rules[0].LastChanges
			require.Equal(t, "1 of 1 probes failed, 1 of them without an end in 300ms", last[len(last)-1].Reason)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, rule)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			b.opens()
			probe(t, ctx, b)
			b.closes()
			giveUp() // what is still in flight ends, too late to be judged
			require.Eventually(t, func() bool { return of(b.gate, "backend").Concurrency == 0 }, 10*time.Second, time.Millisecond)
			require.Equal(t, "closed", b.state())
		})
	}
}
