// Package criticalities reads what peers say of how much their calls matter.
package criticalities

import "github.com/leapgate-go/leapgate/resource"

// Parse returns the criticality of that name.
func Parse(text string) (resource.Criticality, bool) {
	for c := resource.DefaultCriticality; c <= resource.Background; c++ {
		if c.String() == text {
			return c, true
		}
	}
	return 0, false
}

// Clamp returns v, or most if that matters less.
func Clamp(v, most resource.Criticality) resource.Criticality {
	order := func(c resource.Criticality) int { // how much it matters
		switch c {
		case resource.Critical:
			return 3
		case resource.Sheddable:
			return 1
		case resource.Background:
			return 0
		default:
			return 2
		}
	}
	if order(v) > order(most) {
		return most
	}
	return v
}
