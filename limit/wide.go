package limit

import "math/bits"

// wide is a number of 128 bits, which is not negative.
type wide struct{ hi, lo uint64 }

func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return wide{a.hi + b.hi + carry, lo}
}

// minus also reports whether b is more than a.
func (a wide) minus(b wide) (difference wide, over bool) {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, borrow := bits.Sub64(a.hi, b.hi, borrow)
	return wide{hi, lo}, borrow != 0
}

// divide returns the largest number if the quotient is more than that.
func (a wide) divide(by uint64) (quotient, rest uint64) {
	switch {
	case a.hi == 0:
		return a.lo / by, a.lo % by
	case a.hi >= by:
		return 1<<64 - 1, 0
	}
	return bits.Div64(a.hi, a.lo, by)
}
