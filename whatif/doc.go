// Package whatif tells what rules would have done to the requests of a log.
//
// [Run] sends the requests of a [Source] through a gate on the log's own time, and reports by
// rule and by key what would have been blocked. [Compare] does so with two sets of rules at once,
// and [Suggest] finds a limit for each key that would bother few. The guards are the real ones:
// calls end when they did in the log, breakers see their status, and calls that would have waited
// for their turn do so. No time passes meanwhile.
//
// What a log cannot tell, the report says: where times are whole seconds, what comes out if the
// requests of a second are placed otherwise; and how far the windows of a rule are from an exact
// count. The same requests with the same configuration make the same report.
package whatif
