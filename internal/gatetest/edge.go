package gatetest

import "math/big"

// LatencyEdge returns 2^(i/8) seconds in nanoseconds, rounded down, without floating
// point's doubts: the eighth root is three square roots.
func LatencyEdge(i int) int64 {
	x := new(big.Float).SetPrec(400).SetMantExp(big.NewFloat(1), i)
	for range 3 {
		x.Sqrt(x)
	}
	ns, _ := x.Mul(x, big.NewFloat(1e9)).Int64()
	return ns
}
