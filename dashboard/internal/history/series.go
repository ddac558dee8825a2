// Package history keeps what a few figures were, step after step, in little memory.
package history

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// Series is a row of steps, each with the same few figures, the newest of them kept. A step has
// a number, which grows; those that were never added are missing. Make one with [New].
//
// A figure is written as its difference from the step before, if there is one, so what hardly
// changes takes hardly any memory: a step in which nothing changes takes one byte. Where there is
// one figure only, its difference stands alone; else, which of them change stands before them. It
// must not be used by two goroutines at once.
type Series struct {
	figures int   // in each step; at most 62
	chunk   int64 // steps in a chunk
	steps   int64 // that are kept
	bytes   int   // that may be used

	chunks []chunk // oldest first; none is empty
	last   []int64 // the figures of the step before, in the newest chunk
	used   int     // by the chunks
}

// chunk is steps whose numbers follow each other. What comes before it is not needed to read it.
type chunk struct {
	first int64 // the number of its first step
	next  int64 // that of the step after its last one
	data  []byte
}

const (
	overhead = 48 // what a chunk takes besides its data, about
	spare    = 8  // bytes of room that are made for more steps, at least
)

// New makes a series of steps with some figures, at most 62. It keeps at least so many steps, as
// far as they fit into so many bytes, and forgets chunks of steps together.
func New(figures int, steps, chunk int64, bytes int) *Series {
	return &Series{figures: figures, chunk: chunk, steps: steps, bytes: bytes, last: make([]int64, figures)}
}

// Bytes is about how much memory the series takes.
func (s *Series) Bytes() int { return s.used }

// Add adds a step, and reports whether it did: the number must be above that of the step before.
func (s *Series) Add(step int64, figures ...int64) bool {
	c := s.newest()
	if c != nil && step < c.next {
		return false
	}
	if c == nil || step >= c.first+s.chunk {
		s.shrink(c)
		s.chunks = append(s.chunks, chunk{first: step, next: step})
		s.used += overhead
		c = s.newest()
		clear(s.last)
	}
	before := cap(c.data)
	c.grow(int(step - c.next))
	for ; c.next < step; c.next++ {
		c.data = append(c.data, 0)
	}
	s.write(c, figures)
	c.next = step + 1
	s.used += cap(c.data) - before
	s.forget(step)
	return true
}

// write writes the figures of a step behind those of the others in a chunk. A difference that overflows
// comes back when it is added. No step begins with a byte that is 0.
func (s *Series) write(c *chunk, figures []int64) {
	var room [128]byte
	b := room[:0]
	if s.figures == 1 {
		difference := figures[0] - s.last[0]
		if packed := uint64(difference<<1^difference>>63) + 1; packed != 0 { // as AppendVarint, but for the 1
			b = binary.AppendUvarint(b, packed)
		} else {
			b = append(b, 0x80, 0) // also 0
		}
		s.last[0] = figures[0]
	} else {
		changed := uint64(0)
		for i, v := range figures {
			if v != s.last[i] {
				changed |= 1 << i
			}
		}
		b = binary.AppendUvarint(b, changed+1)
		for i, v := range figures {
			if v != s.last[i] {
				b = binary.AppendVarint(b, v-s.last[i])
				s.last[i] = v
			}
		}
	}
	c.grow(len(b))
	c.data = append(c.data, b...)
}

// grow makes room for so many bytes more. Append would make room for twice as much.
func (c *chunk) grow(bytes int) {
	if need := len(c.data) + bytes; need > cap(c.data) {
		c.data = append(make([]byte, 0, need+need/8+spare), c.data...)
	}
}

// read takes the figures of a step off what was written, which does not begin with a 0.
func (s *Series) read(data []byte, figures []int64) (rest []byte) {
	changed, n := binary.Uvarint(data)
	data = data[n:]
	if s.figures == 1 {
		figures[0] += int64((changed-1)>>1) ^ -int64((changed-1)&1)
		return data
	}
	for changed--; changed != 0; changed &= changed - 1 {
		difference, n := binary.Varint(data)
		data = data[n:]
		figures[bits.TrailingZeros64(changed)] += difference
	}
	return data
}

func (s *Series) newest() *chunk {
	if len(s.chunks) == 0 {
		return nil
	}
	return &s.chunks[len(s.chunks)-1]
}

// shrink frees the spare memory of a full chunk.
func (s *Series) shrink(c *chunk) {
	if c != nil {
		s.used -= cap(c.data) - len(c.data)
		c.data = append(make([]byte, 0, len(c.data)), c.data...)
	}
}

// forget drops the oldest chunks that are not needed when this is the newest step, and those that
// do not fit.
func (s *Series) forget(step int64) {
	n := 0
	for ; n < len(s.chunks)-1; n++ {
		if s.chunks[n].next > step-s.steps+1 && s.used <= s.bytes {
			break
		}
		s.used -= overhead + cap(s.chunks[n].data)
	}
	if n > 0 {
		s.chunks = append(s.chunks[:0], s.chunks[n:]...)
		clear(s.chunks[len(s.chunks):cap(s.chunks)][:n])
	}
}

// From returns the steps from a number on, oldest first, without those that are missing. The
// figures are overwritten by the next step.
func (s *Series) From(step int64) iter.Seq2[int64, []int64] {
	return func(yield func(int64, []int64) bool) {
		figures := make([]int64, s.figures)
		for i := range s.chunks {
			c := &s.chunks[i]
			if c.next <= step {
				continue
			}
			clear(figures)
			data := c.data
			for at := c.first; at < c.next; at++ {
				if data[0] == 0 {
					data = data[1:]
					continue
				}
				data = s.read(data, figures)
				if at >= step && !yield(at, figures) {
					return
				}
			}
		}
	}
}
