package simulate

import (
	"math/rand/v2"
	"time"
)

// Times is how long something takes. The zero Times takes no time.
type Times struct {
	Mean  time.Duration
	Shape Shape
}

// Shape is how times are spread around their mean.
type Shape uint8

// The shapes.
const (
	Deterministic Shape = iota // all alike
	Exponential
	// Bimodal times are 5 × the mean and a half for one call in ten, and half the mean for the
	// others, as of a cache that misses.
	Bimodal
)

// String is the shape's name.
func (s Shape) String() string { return [...]string{"deterministic", "exponential", "bimodal"}[s] }

const (
	miss      = 0.1
	missTakes = 5.5 // means
	hitTakes  = 0.5
)

func (t Times) draw(rng *rand.Rand) time.Duration {
	f := 1.0
	switch {
	case t.Shape == Exponential:
		f = rng.ExpFloat64()
	case t.Shape == Bimodal && rng.Float64() < miss:
		f = missTakes
	case t.Shape == Bimodal:
		f = hitTakes
	}
	return time.Duration(f * float64(t.Mean))
}

// P99 is the 99th percentile of the times.
func (t Times) P99() time.Duration {
	const ln100 = 4.605170185988092
	f := [...]float64{Deterministic: 1, Exponential: ln100, Bimodal: missTakes}[t.Shape]
	return time.Duration(f * float64(t.Mean))
}
