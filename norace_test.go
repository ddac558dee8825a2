//go:build !race

package leapgate_test

const raceEnabled = false
