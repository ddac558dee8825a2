package limit

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the naive truth about one key: every charge by itself, and whole numbers
// instead of tricks.
type model interface {
	// ask reports whether n more fit at now, and what remains.
	ask(now, n int64) (fits bool, remaining int64)
	// charge takes n at now, whatever the limit. It returns what refund wants to know.
	charge(now, n int64) *charged
	refund(c *charged, n int64)
	// touch tells the model of a call that may charge, before it is asked. To ask changes nothing.
	touch(now int64)
}

type charged struct{ at, n int64 } // at is in units of the model

// slidingModel has what was charged in each window, and a fraction.
type slidingModel struct {
	limit, window int64
	all           []*charged // at is the number of the window; without those of windows long gone
	begun         bool
	newest        int64 // window that was charged
	met           int64 // narrow: the beginning of the latest epoch that was met
	narrow        bool
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (m *slidingModel) when(now int64) (number, elapsed int64) {
	number = floorDiv(now, m.window)
	elapsed = now - number*m.window
	if !m.begun {
		return number, elapsed
	}
	if late := max(m.newest, m.met); number < late {
		return late, 0
	}
	return number, elapsed
}

func (m *slidingModel) in(number int64) (sum int64) {
	for _, c := range m.all {
		if c.at == number {
			sum += c.n
		}
	}
	return sum
}

// ask compares what is held with the limit, both times the window.
func (m *slidingModel) ask(now, n int64) (bool, int64) {
	number, elapsed := m.when(now)
	room := (m.limit-m.in(number))*m.window - m.in(number-1)*(m.window-elapsed)
	return room >= n*m.window, max(0, floorDiv(room, m.window))
}

func (m *slidingModel) charge(now, n int64) *charged {
	m.touch(now)
	number, _ := m.when(now)
	if !m.begun {
		m.begun, m.met = true, number>>epochShift<<epochShift
	}
	m.newest = number
	m.all = slices.DeleteFunc(m.all, func(c *charged) bool { return c.at < number-1 })
	c := &charged{at: number, n: n}
	m.all = append(m.all, c)
	return c
}

func (m *slidingModel) refund(c *charged, n int64) {
	if c.at == m.newest {
		c.n -= n
	}
}

func (m *slidingModel) touch(now int64) {
	if m.begun && m.narrow {
		m.met = max(m.met, floorDiv(now, m.window)>>epochShift<<epochShift)
	}
}

// logModel has the time of every charge, which is the beginning of a step: of a
// nanosecond, or of a bucket.
type logModel struct {
	limit, step, forgets int64
	all                  []*charged // that have not left the window
	begun                bool
	latest               int64
}

func (m *logModel) when(now int64) int64 {
	if m.begun {
		now = max(now, m.latest)
	}
	return floorDiv(now, m.step) * m.step
}

func (m *logModel) ask(now, n int64) (bool, int64) {
	now = m.when(now)
	held := int64(0)
	for _, c := range m.all {
		if c.at > now-m.forgets {
			held += c.n
		}
	}
	return held+n <= m.limit, max(0, m.limit-held)
}

func (m *logModel) charge(now, n int64) *charged {
	m.touch(now)
	m.begun, m.latest = true, m.when(now)
	c := &charged{at: m.latest, n: n}
	m.all = append(m.all, c)
	return c
}

func (m *logModel) refund(c *charged, n int64) { c.n -= min(n, c.n) }

func (m *logModel) touch(now int64) {
	now = m.when(now)
	m.all = slices.DeleteFunc(m.all, func(c *charged) bool {
		if c.at > now-m.forgets {
			return false
		}
		if c.n > 0 {
			m.latest = now
		}
		c.n = 0 // it cannot be refunded any more
		return true
	})
}

func (a variant) model(cfg Config) model {
	window := int64(cfg.Window)
	switch a.name {
	case "counter":
		return &slidingModel{limit: cfg.Limit, window: window, narrow: true}
	case "locked counter":
		return &slidingModel{limit: cfg.Limit, window: window}
	case "log":
		return &logModel{limit: cfg.Limit, step: 1, forgets: window}
	case "bucketed":
		return &logModel{limit: cfg.Limit, step: window / int64(cfg.Buckets), forgets: window}
	default:
		bucket := window / int64(cfg.Buckets)
		return &logModel{limit: cfg.Limit, step: bucket, forgets: window + bucket}
	}
}

func (a variant) drawConfig(t *rapid.T) Config {
	cfg := Config{
		Limit:  rapid.Int64Range(0, 12).Draw(t, "limit"),
		Window: rapid.SampledFrom([]time.Duration{6 * time.Millisecond, 6*time.Millisecond + 6, 102 * time.Second}).Draw(t, "window"),
	}
	if a.name == "bucketed" || a.name == "strict" {
		cfg.Buckets = rapid.SampledFrom([]int{1, 2, 3, 6}).Draw(t, "buckets")
	}
	return cfg
}

// drawNow moves the clock: a little, to an edge, by several windows, so far that the
// numbers of windows wrap around, or back.
func drawNow(t *rapid.T, now, window int64) int64 {
	edge := (floorDiv(now, window) + 1) * window
	switch rapid.IntRange(0, 11).Draw(t, "clock") {
	case 0, 1, 2:
		return now
	case 3, 4:
		return now + rapid.Int64Range(0, window).Draw(t, "step")
	case 5:
		return edge
	case 6:
		return edge - 1
	case 7:
		return now + window/rapid.Int64Range(1, 6).Draw(t, "part of a window")
	case 8:
		return now + window*rapid.Int64Range(1, 4).Draw(t, "windows ahead")
	case 9:
		return now + window*(1<<rapid.IntRange(11, 18).Draw(t, "2 to the"))
	case 10:
		return now + window*(1<<16) + rapid.Int64Range(-2*window, 2*window).Draw(t, "beside the same number")
	default:
		return now - rapid.Int64Range(1, 2*window).Draw(t, "back")
	}
}

func TestLimiter_AgreesWithANaiveModel(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := a.drawConfig(t)
				l, clock := a.new(t, cfg)
				m := a.model(cfg)
				window := int64(cfg.Window)
				now := rapid.Int64Range(-5*window, 5*window).Draw(t, "begin")
				type taken struct {
					d    Decision
					c    *charged
					left int64
				}
				var all []taken
				t.Repeat(map[string]func(*rapid.T){
					"allow": func(t *rapid.T) {
						now = drawNow(t, now, window)
						n := rapid.Int64Range(1, 5).Draw(t, "n")
						var d Decision
						if rapid.Bool().Draw(t, "by the clock") { // a counter has a shorter way then
							d = byClock(t, l, clock, now, n)
						} else {
							d = l.AllowNAt(now, "a", n)
						}
						m.touch(now)
						fits, remaining := m.ask(now, n)
						if d.Allowed != fits {
							t.Fatalf("%d at %d: %+v, and the model says %v, %d remain", n, now, d, fits, remaining)
						}
						if fits {
							all = append(all, taken{d, m.charge(now, n), n})
							_, remaining = m.ask(now, 0)
						}
						if d.Remaining != remaining {
							t.Fatalf("%d at %d: %+v, and the model says %d remain", n, now, d, remaining)
						}
					},
					"look": func(t *rapid.T) {
						at := drawNow(t, now, window)
						d := l.AllowNAt(at, "a", 0)
						fits, remaining := m.ask(at, 1)
						if d.Allowed != fits || d.Remaining != remaining {
							t.Fatalf("at %d: %+v, and the model says %v, %d remain", at, d, fits, remaining)
						}
					},
					"refund": func(t *rapid.T) {
						if len(all) == 0 {
							t.Skip("nothing to give back")
						}
						which := &all[rapid.IntRange(max(0, len(all)-8), len(all)-1).Draw(t, "which")]
						n := rapid.Int64Range(0, which.left).Draw(t, "n")
						which.left -= n
						require.NoError(t, l.Refund(t.Context(), "a", which.d, n))
						m.refund(which.c, n)
					},
					"settle": func(t *rapid.T) {
						now = drawNow(t, now, window)
						n := rapid.Int64Range(1, 9).Draw(t, "n")
						clock.Store(now)
						require.NoError(t, l.Settle(t.Context(), "a", Decision{}, n))
						m.charge(now, n)
					},
				})
			})
		})
	}
}

// call is one step of a history that can be gone through again.
type call struct {
	now, n int64
	settle bool // charge n, whatever the limit
}

func (a variant) replay(t *rapid.T, cfg Config, history []call) (limiter, *fake) {
	l, clock := a.new(t, cfg)
	for _, c := range history {
		if c.settle {
			clock.Store(c.now)
			require.NoError(t, l.Settle(t.Context(), "a", Decision{}, c.n))
		} else {
			l.AllowNAt(c.now, "a", c.n)
		}
	}
	return l, clock
}

// byClock is AllowN at a given time.
func byClock(t *rapid.T, l limiter, clock *fake, now, n int64) Decision {
	clock.Store(now)
	d, err := l.AllowN(t.Context(), "a", n)
	require.NoError(t, err)
	return d
}

func (a variant) drawHistory(t *rapid.T, cfg Config) (history []call, now int64) {
	window := int64(cfg.Window)
	now = rapid.Int64Range(-5*window, 5*window).Draw(t, "begin")
	for range rapid.IntRange(1, 25).Draw(t, "calls") {
		now = drawNow(t, now, window)
		history = append(history, call{now, rapid.Int64Range(1, 6).Draw(t, "n"), rapid.IntRange(0, 9).Draw(t, "settle") == 0})
	}
	return history, drawNow(t, now, window)
}

// Whatever came before, the wait that a refusal names is the true one: at that time the
// call passes if it is alone, and a nanosecond earlier it does not.
func TestLimiter_RetryAfterIsTrueToTheNanosecond(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := a.drawConfig(t)
				history, now := a.drawHistory(t, cfg)
				n := rapid.Int64Range(1, 12).Draw(t, "last n")
				byTheClock := rapid.Bool().Draw(t, "by the clock")
				last := func(now int64) Decision {
					l, clock := a.replay(t, cfg, history)
					if !byTheClock {
						return l.AllowNAt(now, "a", n)
					}
					return byClock(t, l, clock, now, n) // a counter has a shorter way then
				}
				d := last(now)
				switch {
				case d.Allowed:
					require.Zero(t, d.RetryAfter)
					return
				case n > cfg.Limit:
					require.Equal(t, Never, d.RetryAfter)
					return
				}
				require.Positive(t, d.RetryAfter)
				late := now + int64(d.RetryAfter)
				if got := last(late); !got.Allowed {
					t.Fatalf("%d at %d returns %+v; at that time %+v", n, now, d, got)
				}
				got := last(late - 1)
				if got.Allowed || got.RetryAfter != 1 {
					t.Fatalf("%d at %d returns %+v; a nanosecond earlier %+v", n, now, d, got)
				}
			})
		})
	}
}

// The time to the reset is true in the same way.
func TestLimiter_ResetAfterIsTrueToTheNanosecond(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := a.drawConfig(t)
				cfg.Limit = max(1, cfg.Limit)
				history, now := a.drawHistory(t, cfg)
				l, _ := a.replay(t, cfg, history)
				d := l.AllowNAt(now, "a", rapid.Int64Range(0, 3).Draw(t, "last n"))
				if d.ResetAfter == 0 {
					require.Equal(t, cfg.Limit, d.Remaining)
					return
				}
				late := now + int64(d.ResetAfter)
				if got := l.AllowNAt(late-1, "a", 0); got.Remaining == cfg.Limit || got.ResetAfter != 1 {
					t.Fatalf("at %d: %+v; a nanosecond before the reset %+v", now, d, got)
				}
				if got := l.AllowNAt(late, "a", 0); got.Remaining != cfg.Limit || got.ResetAfter != 0 {
					t.Fatalf("at %d: %+v; at the reset %+v", now, d, got)
				}
			})
		})
	}
}

// fullest returns the largest number in any interval (t − length, t].
func fullest(all []charged, length int64) (largest int64) {
	slices.SortStableFunc(all, func(a, b charged) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	first, sum := 0, int64(0)
	for _, c := range all {
		for sum += c.n; all[first].at <= c.at-length; first++ {
			sum -= all[first].n
		}
		largest = max(largest, sum)
	}
	return largest
}

// What the documentation says of the worst case in one true window, wherever it begins.
func TestLimiter_WorstCaseInATrueWindow(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := a.drawConfig(t)
				window := int64(cfg.Window)
				l, _ := a.new(t, cfg)
				var all []charged
				now := int64(0)
				for range rapid.IntRange(1, 150).Draw(t, "calls") {
					if next := drawNow(t, now, window); next > now {
						now = next // a true window is one of a clock that does not go back
					}
					n := rapid.Int64Range(1, 4).Draw(t, "n")
					if l.AllowNAt(now, "a", n).Allowed {
						all = append(all, charged{at: now, n: n})
					}
				}
				most := cfg.Limit
				switch a.name {
				case "counter", "locked counter":
					most = max(0, 2*cfg.Limit-1) // just under twice
				case "bucketed":
					most = 2 * cfg.Limit
				case "burst":
					most = max(0, 2*cfg.Limit-1) // Limit + Burst − 1
				}
				if got := fullest(all, window); got > most {
					t.Fatalf("some window of %v holds %d, and the limit is %d", cfg.Window, got, cfg.Limit)
				}
			})
		})
	}
}
