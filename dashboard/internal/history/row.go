package history

import "math"

// Row fills a [Series] with what happens in steps of a length, which is given bit by bit.
type Row struct {
	*Series
	length int64 // of a step, in the unit of the times given
	join   []Join
	open   bool
	step   int64   // that is filled now
	now    []int64 // its figures so far
}

// Join says how two values of a figure in one step become one.
type Join func(a, b int64) int64

// The ways to join values.
var (
	Sum    Join = func(a, b int64) int64 { return a + b }
	Most   Join = func(a, b int64) int64 { return max(a, b) }
	Newest Join = func(_, b int64) int64 { return b }
)

// NewRow makes a row of steps of a length, whose figures are joined so. It keeps at least so many steps, as
// far as they fit into so many bytes.
func NewRow(length, steps int64, bytes int, join ...Join) *Row {
	return &Row{
		Series: New(len(join), steps, (steps+11)/12, bytes),
		length: length, join: join, now: make([]int64, len(join)), step: math.MinInt64,
	}
}

// Fill adds what happened until a time, since the one before. A step is added to the series when
// the next one begins. What comes with an earlier time counts where the row is.
func (r *Row) Fill(at int64, figures ...int64) {
	r.Until(at)
	if !r.open {
		r.open, r.step = true, max(r.step+1, at/r.length)
		copy(r.now, figures)
		return
	}
	for i, join := range r.join {
		r.now[i] = join(r.now[i], figures[i])
	}
}

// Until adds the step that is filled to the series, if it is over at a time.
func (r *Row) Until(at int64) {
	if r.open && at/r.length > r.step {
		r.Add(r.step, r.now...)
		r.open = false
	}
}
