//go:build !e2e

package breaker

// openingsToCheck is how many openings each run of the tests checks. With the build tag e2e there are many
// more: they take minutes.
const openingsToCheck = 1_000
