package metric

// The states of a metric.
const (
	counting uint32 = iota
	retiring        // Retire looks whether it may
	retired
)

// Retire takes the final totals of a metric whose owner lets it go. It refuses if
// calls are in flight, or if anything is counted meanwhile. Only one goroutine at
// a time may try.
//
// Who counts asks [Metric.Holds] afterwards; Retire changes the state and then
// looks at the counts. So one of them sees the other, and every event is either in
// the final totals, or known to be void by the one who counted it.
func (m *Metric) Retire() (final Counts, ok bool) {
	before := m.Totals()
	if before.Concurrency() != 0 {
		return Counts{}, false
	}
	m.state.Store(retiring)
	final = m.Totals()
	if final != before {
		m.state.CompareAndSwap(retiring, counting)
		return Counts{}, false
	}
	m.final = &final // read only by those who see the state
	return final, m.state.CompareAndSwap(retiring, retired)
}

// Holds tells a caller that has just counted whether the count holds. If not, the
// metric was retired before, and nobody will see it.
func (m *Metric) Holds() bool {
	return m.state.Load() == counting || m.revive()
}

// revive stops a Retire that has not come to its end.
//
//go:noinline
func (m *Metric) revive() bool {
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
