package dashboard

// HistoryBytes returns how much memory the history takes.
func HistoryBytes(d *Dashboard) int {
	d.past.mu.Lock()
	defer d.past.mu.Unlock()
	return d.past.used
}

// HoldEstimates has those who ask for estimates wait until it is released.
func HoldEstimates(d *Dashboard) (release func()) {
	d.estimating.turn <- struct{}{}
	return func() { <-d.estimating.turn }
}

// Bare is how a file of the page is sent.
var Bare = bare
