package history

import (
	"math"
	"math/bits"
)

const (
	timeScale  = 64  // numbers for a time twice as long
	levelScale = 512 // numbers for a level twice as high

	lowestLevel = -40 // as a power of 2
)

// PackTime returns a time in nanoseconds as a small number, at most 0.6 % off, for a figure.
func PackTime(ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return 1 + int64(math.Round(math.Log2(float64(ns))*timeScale))
}

// UnpackTime returns the nanoseconds that a small number is.
func UnpackTime(packed int64) int64 {
	if packed <= 0 {
		return 0
	}
	return int64(math.Round(math.Exp2(float64(packed-1) / timeScale)))
}

// PackLevel returns a number of 0 or more as a small number, at most 0.07 % off, so that one
// that moves by little is a figure that does. What is below 2^−40 is 0.
func PackLevel(f float64) int64 {
	if !(f >= math.Exp2(lowestLevel)) {
		return 0
	}
	return 1 + int64(math.Round((math.Log2(f)-lowestLevel)*levelScale))
}

// UnpackLevel returns the number that a small number is, to three digits.
func UnpackLevel(packed int64) float64 {
	if packed <= 0 {
		return 0
	}
	const digits = 3
	f := math.Exp2(float64(packed-1)/levelScale + lowestLevel)
	unit := math.Pow10(digits - 1 - int(math.Floor(math.Log10(f))))
	return math.Round(f*unit) / unit
}

// PackNumber returns a number as a figure that differs little from that of a number with few
// digits.
func PackNumber(f float64) int64 { return int64(bits.ReverseBytes64(math.Float64bits(f))) }

// UnpackNumber returns the number that [PackNumber] packed.
func UnpackNumber(packed int64) float64 {
	return math.Float64frombits(bits.ReverseBytes64(uint64(packed)))
}
