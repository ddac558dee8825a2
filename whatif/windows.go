package whatif

// windows counts in windows of the clock, of one key or of each. The times do not go back.
type windows struct {
	length   int64
	from, to int64  // the running window
	number   uint32 // of it, from 1
	keys     column[inWindow]
	over     map[uint32]int64 // by key, what is beyond inWindow.count, in carries
	closed   *histogram       // of the windows that are over, and are not empty
	large    map[uint32]int64 // by key, peaks that are beyond inWindow.peak
}

// inWindow is what a key has in the window in which it was seen last. It is small, since there may
// be millions.
type inWindow struct {
	count  uint32
	number uint32
	peak   uint32 // of the windows that are over, up to maxPeak
}

const (
	carry   = 1 << 31
	maxPeak = 1<<32 - 1
)

func newWindows(length int64, closed *histogram) *windows {
	return &windows{length: length, to: minTime, closed: closed}
}

// minTime is before all times.
const minTime = -1 << 63

// add counts up to maxCost more.
func (w *windows) add(at int64, key uint32, n int64) {
	if at >= w.to {
		w.from = at - mod(at, w.length)
		w.to = w.from + w.length
		w.number++
	}
	k := w.keys.at(key)
	if k.number != w.number {
		w.close(key, k)
		k.number = w.number
	}
	if k.count += uint32(n); k.count >= carry {
		k.count -= carry
		w.over = plus(w.over, key, 1)
	}
}

// close ends a key's window.
func (w *windows) close(key uint32, k *inWindow) {
	count := int64(k.count)
	if len(w.over) > 0 {
		count += w.over[key] * carry
		delete(w.over, key)
	}
	if count == 0 {
		return
	}
	k.count = 0
	w.closed.add(count)
	if k.peak = uint32(max(int64(k.peak), min(count, maxPeak))); count >= maxPeak {
		w.large = plus(w.large, key, max(0, count-w.large[key]))
	}
}

// plus adds to a map, which it makes if there is none.
func plus(m map[uint32]int64, key uint32, n int64) map[uint32]int64 {
	if m == nil {
		m = make(map[uint32]int64)
	}
	m[key] += n
	return m
}

// finish closes all windows.
func (w *windows) finish() {
	for key, k := range w.keys.all {
		w.close(key, k)
	}
}

// peaks returns the most that each key had in a window, after finish.
func (w *windows) peaks() (h histogram) {
	for _, k := range w.keys.all {
		if k.peak > 0 && k.peak < maxPeak {
			h.add(int64(k.peak))
		}
	}
	for _, peak := range w.large {
		h.add(peak)
	}
	return h
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
