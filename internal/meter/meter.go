// Package meter counts the calls of one thing over a sliding window. It is the engine of
// package metric and of the resources of a gate.
//
// A [Meter] owns one set of totals, which only grow, and a ring of marks: the
// totals as they stood when each bucket of the window opened. What happened in
// the window is the totals now minus the oldest mark that is still live. An
// event is added once, whatever number of windows look at it, nothing is ever
// reset, and so no event is lost between two buckets: the sum over the buckets
// is the growth of the totals, exactly, however many goroutines add.
//
// Every method takes now, in nanoseconds; the package reads no clock. An event
// is counted in the bucket that is open when it is added, so that under a given
// clock sequential use is exact. If now goes back, the newest bucket counts.
//
// All methods are safe for concurrent use. None takes a lock. Those that add
// allocate only to open a bucket, or the first time.
package meter

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	uber "go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/stripes"
	"github.com/leapgate-go/leapgate/leaparray"
)

// Meter is a set of totals with a window of marks. Make one with [New]. It has three cache
// lines on 64-bit processors: what every call reads, what every call writes, and the rest.
type Meter struct {
	head
	_     [64 - unsafe.Sizeof(head{})]byte
	first stripe
	rest
	_ [64 - unsafe.Sizeof(rest{})]byte
}

// head is what is read much and seldom written.
type head struct {
	ring    leaparray.LeapArray[bucket]
	stripes uber.Pointer[stripeSet] // nil while the first stripe is enough
	state   uber.Uint32             // see Retire
}

// rest is what few calls read.
type rest struct {
	opening func(int64, *Mark) // nil, or what is called before a bucket opens
	seconds float64            // the interval
	rare    *rare              // apart, since it is written now and then
}

// rare is what few calls cause.
type rare struct {
	events [NumEvents - striped]stripes.Counter
	waits  uber.Pointer[waits] // nil until a call waited
}

// Mark is the totals as they stood when a bucket opened, and what cannot be had
// by subtracting.
type Mark struct {
	minRT       atomic.Int64 // noRT until a call completed
	concurrency atomic.Int64 // the highest seen
	above       *Mark        // that of a coarser ring, which sees what this one does
	Counts      Counts
}

const noRT = math.MaxInt64

// bucket is a mark of the metric's own ring.
type bucket struct {
	// serial counts the buckets, so that the peak of a stripe is known to be of this one. It
	// lies beside the minimum of the mark, which a call reads as well.
	serial uint32
	Mark
	// before is the oldest mark of the window that ends with this bucket, so that
	// reading the window of now need not look for it.
	before Counts
}

// New makes a metric whose window has the given number of buckets and covers
// interval. What is wrong with either is [leaparray.ErrConfig].
func New(buckets int, interval time.Duration) (*Meter, error) {
	m := &Meter{rest: rest{seconds: interval.Seconds(), rare: new(rare)}}
	if err := m.ring.Init(buckets, interval, m.open); err != nil {
		return nil, err
	}
	return m, nil
}

// WhenOpening sets a function that is called whenever a bucket is about to
// open, with its start and its mark; further rings of marks over the same totals
// follow it. It may be called more than once for one bucket, by several goroutines
// at once. It must be set before the first event.
func (m *Meter) WhenOpening(f func(start int64, mark *Mark)) { m.opening = f }

// open makes a bucket. The ring calls it after it loaded its newest bucket and
// before it publishes the new one, so marks never go back.
func (m *Meter) open(b *bucket, start int64, prev *leaparray.WindowWrap[bucket]) {
	m.Mark(&b.Mark)
	b.before = b.Counts
	b.serial = 1
	if prev != nil {
		b.serial = prev.Value().serial + 1
		if oldest := m.ring.Oldest(start); oldest != nil {
			b.before = oldest.Value().Counts
		}
		old := prev.Value().Counts
		m.grow(b.Counts[Pass]+b.Counts[Block]-old[Pass]-old[Block], start-prev.Start())
	}
	if m.opening != nil {
		m.opening(start, &b.Mark)
	}
}

// Mark makes k, which is new, a mark of the totals as they are now. It is for further rings of
// marks.
func (m *Meter) Mark(k *Mark) {
	k.Counts = m.Totals()
	k.minRT.Store(noRT)
	k.concurrency.Store(m.Concurrency())
}

// MaxConcurrency is the highest number of calls in flight that was seen in the bucket of
// the mark. See [Meter.MaxConcurrency].
func (k *Mark) MaxConcurrency() int64 { return k.concurrency.Load() }

// Saw notes that n calls were seen in flight, here and in the marks that this one lies
// under.
func (k *Mark) Saw(n int64) {
	for ; k != nil; k = k.above {
		for old := k.concurrency.Load(); n > old; old = k.concurrency.Load() {
			if k.concurrency.CompareAndSwap(old, n) {
				break
			}
		}
	}
}

// LieUnder makes the mark of a coarser ring see as many calls in flight as this one has
// seen, and will see. It must be called before the bucket of the mark is published, as by
// the function of [Meter.WhenOpening].
func (k *Mark) LieUnder(coarse *Mark) {
	k.above = coarse
	coarse.Saw(k.MaxConcurrency())
}

func (k *Mark) took(rt int64) {
	for old := k.minRT.Load(); rt < old; old = k.minRT.Load() {
		if k.minRT.CompareAndSwap(old, rt) {
			return
		}
	}
}

// Add counts n of an event. It adds nothing if n is below 1 or the event is
// unknown: totals only grow.
func (m *Meter) Add(now int64, e uint8, n int64) {
	if n < 1 || e >= NumEvents {
		return
	}
	if e == Pass {
		m.Pass(now, n)
		return
	}
	if !m.ring.Newest().Covers(now) {
		m.ring.Current(now)
	}
	if e >= striped {
		m.rare.events[e-striped].Add(n)
		return
	}
	m.stripe(m.pick()).counts[e].Add(n)
}

// AddRT counts one completed call: one success and its response time, in the
// sum, the minimum and the histogram. A response time below 0 counts as 0.
func (m *Meter) AddRT(now int64, rt time.Duration) {
	m.Complete(now, m.pick(), 1, max(0, int64(rt)), false)
}

// Pass counts n passes and returns the stripe that took them, which the caller
// hands to [Meter.Complete].
func (m *Meter) Pass(now, n int64) (stripe int) {
	newest := m.ring.Newest()
	if !newest.Covers(now) {
		newest = m.ring.Current(now)
	}
	s := &m.first
	if set := m.stripes.Load(); set != nil {
		stripe = set.pick()
		s = set.list[stripe]
	}
	inFlight := uint64(s.counts[Pass].Add(n) - s.counts[Success].Load())
	b := newest.Value()
	if inFlight > math.MaxUint32 || peakIsAbove(b.serial, inFlight, s.peak.Load()) {
		m.rise(b, s, inFlight)
	}
	return stripe
}

// peakIsAbove reports whether so many calls in flight, in the bucket with that serial, are
// more than the peak that a stripe remembers, or are of a later bucket. Serials wrap.
func peakIsAbove(serial uint32, inFlight, peak uint64) bool {
	return int64(uint64(serial)<<32|inFlight-peak) > 0
}

// rise notes a new peak of a stripe. The highest number of calls in flight on all stripes
// is looked for only then: to add them up at every pass would cost more than the pass.
//
//go:noinline
func (m *Meter) rise(b *bucket, s *stripe, inFlight uint64) {
	if int64(inFlight) < 0 {
		return // calls were completed that have not passed
	}
	inFlight = min(inFlight, math.MaxUint32)
	for old := s.peak.Load(); peakIsAbove(b.serial, inFlight, old); old = s.peak.Load() {
		if s.peak.CompareAndSwap(old, uint64(b.serial)<<32|inFlight) {
			break
		}
	}
	b.Saw(m.Concurrency())
}

// Complete counts n successes that took rt nanoseconds each, and n exceptions
// if the call failed. Totals are written in this order; see readOrder.
func (m *Meter) Complete(now int64, stripe int, n, rt int64, failed bool) {
	current := m.ring.Newest()
	if !current.Covers(now) {
		current = m.ring.Current(now)
	}
	s := m.stripe(stripe)
	s.counts[RT].Add(rt * n)
	if failed {
		s.counts[Exception].Add(n)
	}
	cell := cellOf(rt) // as s.add, but inlined
	if !inSpan(s.span.Load(), cell) {
		s.widen(cell)
	}
	if mark := current.Value(); rt < mark.minRT.Load() {
		mark.took(rt)
	}
	s.latency.Load()[cell].Add(n)
	s.counts[Success].Add(n) // until now the call was in flight
}

// Total is the number of events since the metric was made.
func (m *Meter) Total(e uint8) int64 {
	if e >= NumEvents {
		return 0
	}
	if set := m.stripes.Load(); set != nil || e >= striped {
		return m.addTotal(set, e)
	}
	return m.first.counts[e].Load()
}

func (m *Meter) addTotal(set *stripeSet, e uint8) (sum int64) {
	if e >= striped {
		return m.rare.events[e-striped].Load()
	}
	for _, s := range set.list[:set.mask+1] {
		sum += s.counts[e].Load()
	}
	return sum
}

// Totals are all events since the metric was made. Success ≤ Pass holds in them
// at any time, if every completed call has passed. An exception may be seen a moment
// before its success.
func (m *Meter) Totals() (c Counts) {
	// What is rare is added after the pass it belongs to, so it is read before.
	for i := range m.rare.events {
		c[striped+i] = m.rare.events[i].Load()
	}
	for _, e := range readOrder {
		for i := range m.numStripes() { // there may be more for each event
			c[e] += m.stripe(i).counts[e].Load()
		}
	}
	return c
}

// TotalsAndLatencies are [Meter.Totals] and [Meter.Latencies] as of one reading: every
// call in the one that completed is in the other. Success ≤ Pass holds as well. The sum of
// response times and the exceptions are read later, and may have a few calls more. Calls
// must complete by [Meter.Complete] or [Meter.AddRT]: successes that were added by
// themselves have no latency, and are left out.
func (m *Meter) TotalsAndLatencies() (Counts, Latencies) {
	l := m.Latencies()
	c := m.Totals()
	c[Success] = 0
	for _, n := range l.Counts {
		c[Success] += n // they came before the successes that c was read with
	}
	return c, l
}

// Sum is the number of events in the window: in the buckets that are live at now.
func (m *Meter) Sum(now int64, e uint8) int64 {
	if e >= NumEvents {
		return 0
	}
	// The usual case, without a call: the newest bucket is that of now.
	if newest := m.ring.Newest(); newest.Covers(now) {
		sum := m.Total(e) - newest.Value().before[e]
		if m.ring.Newest() == newest {
			return sum
		}
	}
	for {
		newest := m.ring.Newest()
		mark := m.windowMark(newest, now)
		if mark == nil {
			return 0
		}
		sum := m.Total(e) - mark[e]
		// Had a bucket opened since, the total might be long after the mark.
		if m.ring.Newest() == newest {
			return sum
		}
	}
}

// Window is what [Meter.Sum] returns, for all events. The sums are not ordered
// against each other: a call that began before the window may end in it.
func (m *Meter) Window(now int64) Counts {
	for {
		newest := m.ring.Newest()
		mark := m.windowMark(newest, now)
		if mark == nil {
			return Counts{}
		}
		sum := m.Totals()
		for e := range sum {
			sum[e] -= mark[e]
		}
		if m.ring.Newest() == newest {
			return sum
		}
	}
}

// windowMark returns the totals at the beginning of the window of now, nil if no
// bucket is live.
func (m *Meter) windowMark(newest *leaparray.WindowWrap[bucket], now int64) *Counts {
	if newest.Covers(now) {
		return &newest.Value().before
	}
	return m.oldestMark(now)
}

//go:noinline
func (m *Meter) oldestMark(now int64) *Counts {
	if oldest := m.ring.Oldest(now); oldest != nil {
		return &oldest.Value().Counts
	}
	return nil
}

// QPS is the number of events in the window per second of its length. The
// bucket of now is not over yet, so it is low by what the rest of that bucket
// will bring.
func (m *Meter) QPS(now int64, e uint8) float64 {
	sum := float64(m.Sum(now, e))
	if m.seconds == 1 { // as always in a gate, which is spared the division
		return sum
	}
	return sum / m.seconds
}

// AvgRT is the average response time of the calls completed in the window, 0
// with no calls.
func (m *Meter) AvgRT(now int64) time.Duration { return AvgRT(m.Window(now)) }

// AvgRT is the average response time of the completed calls in c, 0 with none.
func AvgRT(c Counts) time.Duration {
	if c[Success] <= 0 {
		return 0
	}
	return time.Duration(max(0, c[RT]/c[Success])) // a sum beyond all bounds wraps
}

// MinRT is the shortest response time of the calls completed in the window, 0
// with no calls.
func (m *Meter) MinRT(now int64) time.Duration {
	least := int64(noRT)
	for w := range m.ring.Live(now) {
		least = min(least, w.Value().minRT.Load())
	}
	if least == noRT {
		return 0
	}
	return time.Duration(least)
}

// Concurrency is the number of calls in flight, never below 0. While calls come and go it
// may be a little below the truth, and is never above it: passes are read before completions.
func (m *Meter) Concurrency() (sum int64) {
	for i := range m.numStripes() {
		sum += m.stripe(i).counts[Pass].Load()
	}
	for i := range m.numStripes() { // there may be more by now
		sum -= m.stripe(i).counts[Success].Load()
	}
	return max(0, sum)
}

// MaxConcurrency is the highest number of calls in flight in the window. It is exact while
// their number rises, and for a metric that is not busy enough for more than one stripe
// (see hotRate). Otherwise it may be a little below the truth. It is never above it: a
// peak is noticed by a pass that leaves more calls in flight on its stripe than any pass
// before it in the bucket.
func (m *Meter) MaxConcurrency(now int64) int64 {
	most := m.Concurrency()
	if newest := m.ring.Newest(); newest != nil {
		newest.Value().Saw(most)
	}
	for w := range m.ring.Live(now) {
		most = max(most, w.Value().MaxConcurrency())
	}
	return most
}

// LastBucket returns the end of the newest bucket: no event is later. It returns the smallest int64 if
// there is no bucket yet.
func (m *Meter) LastBucket() (end int64) {
	newest := m.ring.Newest()
	if newest == nil {
		return math.MinInt64
	}
	return newest.Start() + int64(m.ring.Length())
}

// Trim lets go of the marks that are out of date; see [leaparray.LeapArray.Trim].
func (m *Meter) Trim(now int64) { m.ring.Trim(now) }
