// Package breaker stops calls to what does not answer, and lets them come back gently.
//
// A [Rule] on a resource judges how its calls end. When too many fail, or are too slow, the
// breaker opens, and refuses all calls for a while: what is broken is left alone, and callers get
// an answer at once. Then a few calls, the probes, try whether it works again.
//
//	err := gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
//		{Resource: "db.query", ErrorRatio: 0.5, SlowRatio: 0.8, SlowAfter: time.Second},
//	}})
//	…
//	rows, err := leapgate.Call(ctx, gate, "db.query", query)
//
// Half failures of at least ten calls in ten seconds open this one, or four fifths of calls that
// take more than a second, for five seconds; ten, ten and five are defaults that the rule may change.
// leapgate.CallOr has a fallback for those that are refused.
//
// # States
//
//	closed      all calls pass, and their results are judged
//	open        none passes, until OpenFor is over
//	half-open   at most Probes calls pass, and decide: open or closed
//	ramping     with Ramp, after half-open: a share of the calls passes, which grows
//	throttling  with Behavior Throttle, which has no other state
//
// The state of a rule on a resource, since when, and the last changes, each with the numbers
// that made it, are in the resource's Snapshot; OnChange of the gate is told of every change. A
// state that is over is left when somebody comes: an open breaker without calls stays open, and
// the next call is the probe. Only probes that are over their time, and the end of a ramp, are
// found by a snapshot too; they take effect at the time at which they were due. No goroutine
// and no timer is needed.
//
// # What is judged
//
// A result counts when its call ends, if the call began at or after the last change of state:
// calls of earlier times say nothing about the present. Each change begins with nothing counted.
// Failures are what the gate's Outcome says: by default every error, a panic, and
// context.DeadlineExceeded, but not a caller that has cancelled. Ignored calls count nowhere,
// except that one that was slow is slow whatever its outcome. Time between Pause and Resume of an
// entry does not make a call slow; package leaphttp excludes waits for clients in this way. A probe that pauses still
// has ProbeTimeout to end. A call of [leapgate.WithCount] is
// one call, one result and one probe; in the figures it counts n times.
//
// MinCalls is held against the number that a figure is a part of: successes and failures for
// ErrorRatio, ErrorCount and Consecutive; for SlowRatio these, the ignored calls that were slow,
// and those that hang.
//
// # Calls that hang
//
// With SlowRatio, calls in flight count as slow as soon as they are overdue, that is, in flight
// for longer than SlowAfter. They are looked at whenever a tenth of SlowAfter has passed and a
// call comes. So a backend that takes calls and answers none is cut off after at most 1.1 ×
// SlowAfter, without one result. When such a call ends, it counts once, by its end.
//
// # Probes
//
// Probes in flight and probes that have ended are never more than Probes together. A probe is bad
// if any figure of the rule would count it. So many bad ones as reach the smallest ratio open the
// breaker again, at least one, and one is enough for ErrorCount and Consecutive; as soon as
// there cannot be so many any more, it closes. A probe that is ignored, or that another
// rule refuses after all, leaves its place to the next. One that takes ProbeTimeout is bad, and
// whatever becomes of it later does not count: no probe can keep a breaker half-open.
//
// # Throttle
//
// With [Throttle] a breaker has no states. It refuses a share of the calls, as many as exceed K
// for each that succeeds: with the default of 2, none while at least half succeed. The refused
// ones count as requests, so the share rises while they go on and falls as they succeed. One call
// a second always passes. The share is (requests − K × accepts) / (requests + 1), at most
// MaxReject, over Interval: "Handling Overload" in Site Reliability Engineering, O'Reilly 2016.
// Shares are picked evenly: of a quarter, each fourth call is refused.
//
// # With other rules
//
// An open breaker refuses a call before rules of other kinds are asked, so that it takes none of
// their tokens and does not queue. A call that was queueing already when the breaker opened goes
// on waiting, and is refused when its turn comes, which it gives back. Several breakers on a
// resource have a state each. A refusal is 503 over HTTP.
//
// An open breaker says in RetryAfter how long it stays open. While it is half-open, ramps up,
// throttles or is forced open, that cannot be known, and is 0.
//
// # Force, modes and reloads
//
// Force keeps a breaker open or closed, for the operator. In mode Shadow nothing is refused, and
// the breaker goes through its states as if: what it would have refused runs, but its results
// do not count, for they would not exist.
//
// A rule that is loaded again goes on in its state, by its ID. A new OpenFor counts from when
// the breaker opened. The results in the window stay if Interval, Buckets, SlowAfter, and whether
// failures and slow calls are judged, do. Otherwise counting begins anew, with calls that begin
// after the change: those in flight do not count, however long they hang.
//
// A closed breaker takes no lock, and allocates nothing but the buckets of its window: 10 for
// Interval, and 11 for calls in flight with SlowRatio. Everything may be called by any number of
// goroutines at once.
package breaker
