package dashboard

// HistoryBytes returns how much memory the history takes.
func HistoryBytes(d *Dashboard) int {
	d.past.mu.Lock()
	defer d.past.mu.Unlock()
	return d.past.used
}
