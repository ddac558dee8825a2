package gatetest

import "testing"

// Rounds returns how often to do what is to be done n times: a tenth as often under the race
// detector, which needs no more to find what it finds, and with -short.
func Rounds[N int | int64](n N) N {
	if Race || testing.Short() {
		return n / 10
	}
	return n
}
