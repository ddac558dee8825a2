package whatif

// windows counts in windows of the clock, of one key or of each. The times do not go back.
type windows struct {
	length     int64
	from, to   int64 // the running window
	number     int32 // of it
	keys       []inWindow
	closed     *histogram // of the windows that are over, and are not empty
	peaks      []int64    // by key, of its windows; nil if nobody wants them
	wantsPeaks bool
}

// inWindow is what a key has in the window in which it was seen last.
type inWindow struct {
	count  int64
	number int32
}

func newWindows(length int64, peaks bool, closed *histogram) *windows {
	return &windows{length: length, to: minTime, wantsPeaks: peaks, closed: closed}
}

// minTime is before all times.
const minTime = -1 << 63

func (w *windows) add(at int64, key uint32, n int64) {
	if at >= w.to {
		w.from = at - mod(at, w.length)
		w.to = w.from + w.length
		w.number++
	}
	if int(key) >= len(w.keys) {
		w.keys = grown(w.keys, key)
		if w.wantsPeaks {
			w.peaks = grown(w.peaks, key)
		}
	}
	k := &w.keys[key]
	if k.number != w.number {
		w.close(key)
		k.number, k.count = w.number, 0
	}
	k.count += n
}

func (w *windows) close(key uint32) {
	count := w.keys[key].count
	if count == 0 {
		return
	}
	w.closed.add(count)
	if w.wantsPeaks {
		w.peaks[key] = max(w.peaks[key], count)
	}
}

// finish closes all windows.
func (w *windows) finish() {
	for key := range w.keys {
		w.close(uint32(key))
		w.keys[key].count = 0
	}
}

// mod is the remainder that is not negative.
func mod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// grown is a slice with room at index i.
func grown[T any](s []T, i uint32) []T {
	var zero T
	for int(i) >= len(s) {
		s = append(s, zero)
	}
	return s
}
