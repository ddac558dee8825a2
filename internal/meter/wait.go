package meter

import (
	"sync/atomic"
	"time"
)

// waits is what is counted of calls that wait before they begin.
type waits struct {
	now   atomic.Int64 // calls that wait
	peaks [2]peak      // of the even and the odd seconds
	times
}

func (m *Meter) makeWaits() *waits {
	if w := m.rare.waits.Load(); w != nil {
		return w
	}
	m.rare.waits.CompareAndSwap(nil, new(waits))
	return m.rare.waits.Load()
}

// peak is the most that was seen in a second of the clock:
//
//	second mod 2^24 | most, up to 2^40 − 1
//
// It is one word, so that none is lost when a second begins.
type peak struct{ atomic.Uint64 }

const (
	peakBits = 40
	peakMost = 1<<peakBits - 1
)

// saw notes that so many were seen in a second. One that comes late, after a newer one, is too late.
func (p *peak) saw(second, n int64) {
	stamp := uint64(second) << peakBits
	for {
		w := p.Load()
		ahead := (w - stamp) >> peakBits // seconds, or very many if it is behind
		if w != 0 && (ahead == 0 && w&peakMost >= uint64(n) || ahead > 0 && ahead < 60) {
			return
		}
		if p.CompareAndSwap(w, stamp|uint64(min(n, peakMost))) {
			return
		}
	}
}

// in returns the most that was seen in a second, 0 if nothing was.
func (p *peak) in(second int64) int64 {
	if w := p.Load(); w&^peakMost == uint64(second)<<peakBits {
		return int64(w & peakMost)
	}
	return 0
}

// AddWaiting counts n calls that begin to wait, or, if n is below 0, that wait no more.
func (m *Meter) AddWaiting(now, n int64) {
	w := m.makeWaits()
	waiting := w.now.Add(n)
	second := now / int64(time.Second)
	w.peaks[second&1].saw(second, max(waiting, waiting-n))
}

// MaxWaiting is the highest number of calls that waited in the second of now and the one before it.
func (m *Meter) MaxWaiting(now int64) int64 {
	w := m.rare.waits.Load()
	if w == nil {
		return 0
	}
	second := now / int64(time.Second)
	return max(w.now.Load(), w.peaks[second&1].in(second), w.peaks[(second-1)&1].in(second-1))
}

// Waiting is the number of calls that wait now.
func (m *Meter) Waiting() int64 {
	if w := m.rare.waits.Load(); w != nil {
		return w.now.Load()
	}
	return 0
}

// Waited counts how long n calls have waited, in nanoseconds, whether they got what they waited for or
// not.
func (m *Meter) Waited(now, n, waited int64) {
	m.Add(now, Wait, n*waited)
	m.makeWaits().add(waited, n)
}

// Waits are how long calls have waited since the meter was made. A reader that reads them before the
// totals finds the time of each in [Wait].
func (m *Meter) Waits() Latencies {
	w := m.rare.waits.Load()
	if w == nil {
		return Latencies{}
	}
	first, cells := w.cells()
	if len(cells) == 0 {
		return Latencies{}
	}
	l := Latencies{First: first + FirstCell, Counts: make([]int64, len(cells))}
	for i := range cells {
		l.Counts[i] = cells[i].Load()
	}
	return l
}
