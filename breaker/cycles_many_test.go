//go:build e2e

package breaker

const openingsToCheck = 100_000
