package meter

// The states of a meter.
const (
	counting uint32 = iota
	retiring        // Retire is checking whether it may
	retired
)

// Retire ends a meter that nobody uses any more. end is what [Meter.LastBucket] returned before. Retire
// reports false and changes nothing if a bucket was opened since, if calls are in flight or waiting, or
// if an event is counted meanwhile. Only one goroutine at a time may call it.
//
// A caller that has counted a pass or a block asks [Meter.Holds] afterwards. Retire changes the state
// and then reads the counts, so one of the two sees the other: an event that was counted before is in
// the totals of a bucket that the caller of Retire has seen, and one that was counted after is void.
func (m *Meter) Retire(end int64) bool {
	if !m.state.CompareAndSwap(counting, retiring) {
		return false
	}
	c := m.Totals()
	if m.LastBucket() != end || c[Pass] != c[Success] || m.Waiting() != 0 {
		m.state.CompareAndSwap(retiring, counting)
		return false
	}
	return m.state.CompareAndSwap(retiring, retired)
}

// Retired reports whether the meter was retired. What was read from it before may then include void
// events.
func (m *Meter) Retired() bool { return m.state.Load() == retired }

// Holds reports to a caller that has just counted a pass or a block whether it counts. It does not if
// the meter was retired before.
func (m *Meter) Holds() bool {
	return m.state.Load() == counting || m.revive()
}

// revive stops a Retire that has not come to its end.
//
//go:noinline
func (m *Meter) revive() bool {
	m.state.CompareAndSwap(retiring, counting)
	return m.state.Load() != retired
}
