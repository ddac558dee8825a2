package meter

import "sync/atomic"

// waits is what is counted of calls that wait before they begin.
type waits struct {
	now    atomic.Int64 // calls that wait
	ending atomic.Int64 // calls that are being counted below
	times
}

func (m *Meter) makeWaits() *waits {
	if w := m.rare.waits.Load(); w != nil {
		return w
	}
	m.rare.waits.CompareAndSwap(nil, new(waits))
	return m.rare.waits.Load()
}

// AddWaiting counts n calls that begin to wait, or, if n is below 0, that wait no more.
func (m *Meter) AddWaiting(n int64) { m.makeWaits().now.Add(n) }

// Waiting is the number of calls that wait now.
func (m *Meter) Waiting() int64 {
	if w := m.rare.waits.Load(); w != nil {
		return w.now.Load()
	}
	return 0
}

// Waited counts how long n calls have waited, in nanoseconds, whether they got what they
// waited for or not. It reports whether that holds; if not, the meter was retired before.
//
// A call that waits is not in flight, and does not keep the meter from being retired. It
// does while it is counted here. The two agree as Retire and a pass do: each writes
// before it looks.
func (m *Meter) Waited(now, n, waited int64) (holds bool) {
	w := m.makeWaits()
	w.ending.Add(1)
	defer w.ending.Add(-1)
	if !m.Holds() {
		return false
	}
	m.Add(now, Wait, n*waited)
	w.add(waited, n)
	return true
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
