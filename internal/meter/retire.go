package meter

// The states of a metric.
const (
	counting uint32 = iota
	retiring        // Retire looks whether it may
	retired
)

// finalTotals is what a retired metric leaves.
type finalTotals struct {
	counts Counts
	blocks []int64 // by stripe
}

// Retire takes the final totals of a metric whose owner lets it go. It refuses if
// calls are in flight, if anything is counted meanwhile, or if the metric is retired
// already. Only one goroutine at a time may try.
//
// A caller that counts a pass asks [Meter.Holds] afterwards; Retire changes the state and
// then looks at the counts. So one of them sees the other, and every event is
// either in the final totals, or known to be void by the one that counted it.
// Everything else about a call is counted while it is in flight. Readers ask as well,
// for what they have read may be void.
func (m *Meter) Retire() (final Counts, ok bool) {
	before := m.readTotals()
	if before[Pass] != before[Success] || !m.state.CompareAndSwap(counting, retiring) {
		return Counts{}, false
	}
	if w := m.rare.waits.Load(); w != nil && w.ending.Load() != 0 {
		m.state.CompareAndSwap(retiring, counting)
		return Counts{}, false
	}
	last := finalTotals{counts: m.readTotals(), blocks: make([]int64, m.numStripes())}
	last.counts[Block] = 0
	for i := range last.blocks {
		last.blocks[i] = m.stripe(i).counts[Block].Load()
		last.counts[Block] += last.blocks[i]
	}
	if last.counts != before {
		m.state.CompareAndSwap(retiring, counting)
		return Counts{}, false
	}
	m.final = &last // read only by those that see the state
	return last.counts, m.state.CompareAndSwap(retiring, retired)
}

// Holds reports to a caller that has just counted a pass whether it holds. If not, the
// metric was retired before, and nobody will see it.
func (m *Meter) Holds() bool {
	return m.state.Load() == counting || m.revive()
}

// Block counts n blocks, and reports whether that holds.
func (m *Meter) Block(now, n int64) (holds bool) {
	if !m.ring.Newest().Covers(now) {
		m.ring.Current(now)
	}
	stripe := m.pick()
	count := m.stripe(stripe).counts[Block].Add(n)
	if m.Holds() {
		return true
	}
	// A blocked call is never in flight, so the metric may have been retired after
	// it counted, with this in the final totals: if they have reached the count.
	return stripe < len(m.final.blocks) && count <= m.final.blocks[stripe]
}

// revive stops a Retire that has not come to its end.
//
//go:noinline
func (m *Meter) revive() bool {
	for {
		if m.state.CompareAndSwap(retiring, counting) {
			return true
		}
		switch m.state.Load() {
		case counting:
			return true
		case retired:
			return false
		}
	}
}
