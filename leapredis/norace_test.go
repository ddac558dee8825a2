//go:build !race

package leapredis

const raceEnabled = false
