// Package whatif computes the effects of rules on the requests of a log.
//
// [Run] sends the requests of a [Source] through a gate on the time of the log, and reports by rule and by key which
// requests would have been blocked. [Compare] does so with two sets of rules, and [Suggest] finds a limit per key that
// affects few keys. The guards are real: calls end when they ended in the log, breakers see their status, and calls
// wait as they would have waited, while no real time passes. The same requests and the same configuration give the
// same report.
package whatif
