// Package leapgatetest helps to test programs that use Leapgate: with a clock that the test moves,
// gates that find entries which are never exited, block errors to hand to a handler, and servers that fail or hang.
//
//	clock := leapgatetest.NewClock()
//	gate := leapgatetest.New(t, leapgate.Config{}, clock)
//	…                              // rules, and the code under test with gate.Gate
//	gate.Fill("GET /orders")       // the next call is refused
//	…
//	clock.Advance(time.Second)     // now it passes again
//
// Nothing is simulated: the gate is a real one, with real rules, on a clock that the test moves.
//
// # Bubbles of testing/synctest
//
// In a bubble, use the real clock, which is the bubble's: make the gate inside it, with a nil clock.
// A gate that was made outside and is used inside sees its clock jump back by decades, so that its
// windows stand still; it logs an error when it notices. That goes for [leapgate.Default] too, which is made
// when it is first used, and for gates in variables of a package: such tests depend on their order. Give
// the code under test a gate instead.
package leapgatetest
