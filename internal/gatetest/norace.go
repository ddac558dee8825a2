//go:build !race

package gatetest

// Race reports whether the race detector runs, under which allocations differ and
// much takes many times as long.
const Race = false
