package quota

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exactLog is the naive truth about a quota: every admission by itself.
type exactLog struct {
	length, interval int64 // interval: after which a bucket is forgotten
	begun            bool
	newest           int64
	log              []admission
}

type admission struct{ start, n int64 }

func newExactLog(interval time.Duration, buckets int, strict bool) *exactLog {
	m := &exactLog{length: int64(interval) / int64(buckets), interval: int64(interval)}
	if strict {
		m.interval += m.length
	}
	return m
}

// at returns the bucket that decides at now.
func (m *exactLog) at(now int64) int64 {
	start := now - (now%m.length+m.length)%m.length
	if m.begun {
		start = max(start, m.newest)
	}
	return start
}

// window sums up what counts in the window that ends with the bucket of now.
func (m *exactLog) window(now int64) (sum int64) {
	start := m.at(now)
	for _, a := range m.log {
		if start-m.interval < a.start && a.start <= start {
			sum += a.n
		}
	}
	return sum
}

// fullest is what the fullest window holds that the bucket at start lies in.
func (m *exactLog) fullest(start int64) (held int64) {
	for end := start; end < start+m.interval; end += m.length {
		held = max(held, m.window(end))
	}
	return held
}

func (m *exactLog) wait(now, n, limit int64) time.Duration {
	if n > limit {
		return Unknown
	}
	start := m.at(now)
	if m.fullest(start)+n <= limit {
		return 0
	}
	for m.fullest(start)+n > limit {
		start += m.length
	}
	return time.Duration(start - now)
}

func (m *exactLog) take(now, n, limit int64) Outcome {
	m.begun, m.newest = true, m.at(now)
	if held := m.fullest(m.newest); held+n > limit {
		return Outcome{Held: held, Wait: m.wait(now, n, limit)}
	}
	m.log = append(m.log, admission{m.newest, n})
	return Outcome{OK: true, Ticket: m.newest}
}

// borrow tries one bucket after the other.
func (m *exactLog) borrow(now, n, limit int64, maxWait time.Duration) Outcome {
	o := m.take(now, n, limit)
	for start := m.newest + m.length; !o.OK && start-now <= int64(maxWait); start += m.length {
		if m.fullest(start)+n <= limit {
			m.log = append(m.log, admission{start, n})
			return Outcome{OK: true, Ticket: start, Wait: time.Duration(start - now)}
		}
	}
	return o
}

func (m *exactLog) refund(ticket, n int64) {
	if i := slices.Index(m.log, admission{ticket, n}); ticket >= m.newest && i >= 0 {
		m.log = slices.Delete(m.log, i, i+1)
	}
}

func (m *exactLog) admitted() (sum int64) {
	for _, a := range m.log {
		sum += a.n
	}
	return sum
}

// shape is a way to cut a window.
type shape struct {
	Interval time.Duration
	Buckets  int
	Strict   bool
}

func drawShape(t *rapid.T) shape {
	s := shape{Buckets: rapid.IntRange(1, 6).Draw(t, "buckets"), Strict: rapid.Bool().Draw(t, "strict")}
	length := rapid.SampledFrom([]time.Duration{1, 2, 7, 100}).Draw(t, "bucket length")
	s.Interval = length * time.Duration(s.Buckets)
	return s
}

func (s shape) new(t *rapid.T) *Quota {
	q, err := New(s.Interval, s.Buckets, s.Strict)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// drawNow moves the clock: a little, to an edge, by several buckets, beyond the
// window, or back.
func (s shape) drawNow(t *rapid.T, now int64) int64 {
	length := int64(s.Interval) / int64(s.Buckets)
	edge := now - (now%length+length)%length + length
	switch rapid.IntRange(0, 9).Draw(t, "clock") {
	case 0, 1, 2:
		return now
	case 3, 4:
		return now + rapid.Int64Range(0, length).Draw(t, "step")
	case 5:
		return edge
	case 6:
		return edge - 1
	case 7:
		return now + length*rapid.Int64Range(1, int64(s.Buckets)+2).Draw(t, "buckets ahead")
	case 8:
		return now + int64(s.Interval)*rapid.Int64Range(1, 1000).Draw(t, "windows ahead")
	default:
		return now - rapid.Int64Range(1, 2*int64(s.Interval)).Draw(t, "back")
	}
}

// drawWait draws how long a borrower would wait: up to three windows, or not at all.
func (s shape) drawWait(t *rapid.T) time.Duration {
	wait := time.Duration(rapid.Int64Range(-1, 3*int64(s.Interval)).Draw(t, "wait"))
	if rapid.Bool().Draw(t, "whole buckets") {
		wait -= wait % (s.Interval / time.Duration(s.Buckets))
	}
	return wait
}

func TestQuota_AgreesWithAnExactLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		q, m := s.new(t), newExactLog(s.Interval, s.Buckets, s.Strict)
		now := rapid.Int64Range(-1000, 1000).Draw(t, "begin")
		var taken []admission
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if got, want := q.Admitted(), m.admitted(); got != want {
					t.Fatalf("admitted %d, want %d", got, want)
				}
			},
			"take": func(t *rapid.T) {
				now = s.drawNow(t, now)
				n := rapid.Int64Range(1, 4).Draw(t, "n")
				limit := rapid.Int64Range(0, 8).Draw(t, "limit")
				if got, want := q.Wait(now, n, limit), m.wait(now, n, limit); got != want {
					t.Fatalf("Wait(%d, %d, %d) is %d, want %d", now, n, limit, got, want)
				}
				got, want := q.Take(now, n, limit), m.take(now, n, limit)
				if got != want {
					t.Fatalf("Take(%d, %d, %d) is %+v, want %+v", now, n, limit, got, want)
				}
				if got.OK {
					taken = append(taken, admission{got.Ticket, n})
				}
			},
			"borrow": func(t *rapid.T) {
				now = s.drawNow(t, now)
				n := rapid.Int64Range(1, 4).Draw(t, "n")
				limit := rapid.Int64Range(0, 8).Draw(t, "limit")
				maxWait := s.drawWait(t)
				got, want := borrow(q, now, n, limit, maxWait), m.borrow(now, n, limit, maxWait)
				if got != want {
					t.Fatalf("Borrow(%d, %d, %d, %d) is %+v, want %+v", now, n, limit, maxWait, got, want)
				}
				if got.OK {
					taken = append(taken, admission{got.Ticket, n})
				}
			},
			"refund": func(t *rapid.T) {
				if len(taken) == 0 {
					t.Skip("nothing to give back")
				}
				i := rapid.IntRange(max(0, len(taken)-6), len(taken)-1).Draw(t, "which")
				a := taken[i]
				taken = slices.Delete(taken, i, i+1)
				q.Refund(a.start, a.n)
				m.refund(a.start, a.n)
			},
			"read": func(t *rapid.T) {
				at := s.drawNow(t, now)
				newest := q.ring.Newest()
				if got, want := q.Window(at), m.window(at); got != want {
					t.Fatalf("Window(%d) is %d, want %d", at, got, want)
				}
				n := rapid.Int64Range(1, 4).Draw(t, "n")
				limit := rapid.Int64Range(0, 8).Draw(t, "limit")
				if got, want := q.Wait(at, n, limit), m.wait(at, n, limit); got != want {
					t.Fatalf("Wait(%d, %d, %d) is %d, want %d", at, n, limit, got, want)
				}
				if q.ring.Newest() != newest {
					t.Fatalf("reading at %d has opened a bucket", at)
				}
			},
		})
	})
}

// Whatever came before, the wait that a refusal names is the true one: at that
// time the call passes if it is alone, and a nanosecond earlier it does not.
func TestQuota_WaitIsTrueToTheNanosecond(t *testing.T) {
	t.Parallel()
	type call struct {
		now, n, limit int64
		maxWait       time.Duration // of those that borrow
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		now := rapid.Int64Range(-1000, 1000).Draw(t, "begin")
		var history []call
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now = s.drawNow(t, now)
			history = append(history, call{
				now, rapid.Int64Range(1, 4).Draw(t, "n"), rapid.Int64Range(1, 12).Draw(t, "limit"), s.drawWait(t),
			})
		}
		// The same history again, and one more call.
		again := func(last call) Outcome {
			q := s.new(t)
			for _, c := range history {
				borrow(q, c.now, c.n, c.limit, c.maxWait)
			}
			projected := q.Wait(last.now, last.n, last.limit)
			o := q.Take(last.now, last.n, last.limit)
			if o.Wait != projected {
				t.Fatalf("%+v waits %v, and returns %+v", last, projected, o)
			}
			return o
		}
		last := call{s.drawNow(t, now), rapid.Int64Range(1, 6).Draw(t, "last n"), rapid.Int64Range(1, 6).Draw(t, "last limit"), 0}
		o := again(last)
		switch {
		case o.OK:
			return
		case last.n > last.limit:
			if o.Wait != Unknown {
				t.Fatalf("%+v can never pass and returns %+v", last, o)
			}
			return
		case o.Wait <= 0:
			t.Fatalf("%+v is refused and returns %+v", last, o)
		}
		late, early := last, last
		late.now += int64(o.Wait)
		early.now = late.now - 1
		if got := again(late); !got.OK {
			t.Fatalf("%+v returns %+v; at that time %+v", last, o, got)
		}
		if got := again(early); got.OK || got.Wait != 1 {
			t.Fatalf("%+v returns %+v; a nanosecond earlier %+v", last, o, got)
		}
	})
}

// stamped is an admission at its time: the later of the clock reading and the
// start of the bucket that took it.
type stamped struct{ at, n int64 }

// most returns the largest number admitted in any interval of the given length,
// both its ends included.
func most(all []stamped, length int64) (largest int64) {
	slices.SortFunc(all, func(a, b stamped) int { return cmp.Compare(a.at, b.at) })
	first, sum := 0, int64(0)
	for _, a := range all {
		for sum += a.n; all[first].at < a.at-length; first++ {
			sum -= all[first].n
		}
		largest = max(largest, sum)
	}
	return largest
}

// mostAligned returns the largest number admitted in any window of whole buckets.
func mostAligned(perBucket map[int64]int64, length, interval int64) (largest int64) {
	for end := range perBucket {
		sum := int64(0)
		for start := end; start > end-interval; start -= length {
			sum += perBucket[start]
		}
		largest = max(largest, sum)
	}
	return largest
}

func TestQuota_NoIntervalHoldsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		q := s.new(t)
		length, interval := int64(s.Interval)/int64(s.Buckets), int64(s.Interval)
		limit := rapid.Int64Range(0, 10).Draw(t, "limit")
		random := rapid.Bool().Draw(t, "random clock")
		now := int64(0)
		var all []stamped
		perBucket := make(map[int64]int64)
		for range rapid.IntRange(1, 150).Draw(t, "calls") {
			if random {
				now = rapid.Int64Range(0, 5*interval).Draw(t, "now")
			} else {
				now = s.drawNow(t, now)
			}
			n := rapid.Int64Range(1, 4).Draw(t, "n")
			if o := borrow(q, now, n, limit, s.drawWait(t)); o.OK {
				all = append(all, stamped{max(now, o.Ticket), n})
				perBucket[o.Ticket] += n
			}
		}
		if got := mostAligned(perBucket, length, interval); got > limit {
			t.Fatalf("an aligned window holds %d of %d", got, limit)
		}
		if s.Strict {
			if got := most(all, interval); got > limit {
				t.Fatalf("some interval of %v holds %d of %d", s.Interval, got, limit)
			}
		}
	})
}
