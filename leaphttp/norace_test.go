//go:build !race

package leaphttp_test

const raceEnabled = false
