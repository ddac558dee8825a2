package whatif

// column has a value for each number from 0. It grows by pieces that are never copied, so that
// memory does not rise above what is in use.
type column[T any] struct{ pieces [][]T }

const piece = 256

// at returns the value of a number, which is zero at first.
func (c *column[T]) at(i uint32) *T {
	n, k := int(i/piece), int(i%piece)
	if n >= len(c.pieces) || k >= len(c.pieces[n]) {
		c.grow(n, k)
	}
	return &c.pieces[n][k]
}

// grow makes room. The first piece becomes as long as it must: most columns are of one value.
func (c *column[T]) grow(n, k int) {
	for n >= len(c.pieces) {
		c.pieces = append(c.pieces, nil)
	}
	size := piece
	if n == 0 {
		size = k + 1
	}
	c.pieces[n] = append(c.pieces[n], make([]T, size-len(c.pieces[n]))...)
}

// get returns the value of a number without making room for it.
func (c *column[T]) get(i uint32) (v T) {
	if n, k := int(i/piece), int(i%piece); n < len(c.pieces) && k < len(c.pieces[n]) {
		v = c.pieces[n][k]
	}
	return v
}

// all yields each number for which there is room, and its value.
func (c *column[T]) all(yield func(uint32, *T) bool) {
	for n, values := range c.pieces {
		for k := range values {
			if !yield(uint32(n*piece+k), &values[k]) {
				return
			}
		}
	}
}
