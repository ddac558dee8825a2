// Package leapredis is the limiters of package limit for any number of processes that
// share one limit, through a Redis (7.0 or later) or Valkey that they have: a single
// node, Sentinel or a Cluster.
//
//	client, err := rueidis.NewClient(viarueidis.Options("127.0.0.1:6379"))
//	…
//	perClient, err := leapredis.NewCounter(viarueidis.New(client), leapredis.Config{
//		Limit: 100, Window: time.Minute, Prefix: "api:",
//	})
//	…
//	d, err := perClient.Allow(ctx, id)
//
// [NewCounter], [NewLog] and [NewBurst] make limiters that decide as those of package limit do, by
// the server's clock; [NewInFlight] makes one of calls in flight, whose places are leased.
// A decision is one call of a script, so there is no time between looking and counting.
// What is refused is not counted. They are limiters like those: limit.All and package
// leaphttp take them, and ask them before those that are in memory.
//
// # Leases
//
// With Config.Lease, a counter takes up to so many permits in one round trip, and then
// admits calls without asking until they are spent. The server has counted them before
// they are used, so that all processes together never admit more than the limit. A lease
// ends after Config.LeaseTime, and with the window of the server that was charged,
// counted from before the server was asked. What is left of it after LeaseTime is given
// back: once, and only to the window that was charged. How many permits are asked for
// follows the rate of the key in this process; near the limit the server grants no more
// than an eighth of what is left beyond what was asked for.
//
// A key that was refused is refused without asking until one more may pass. Meanwhile one call
// in LeaseTime asks, however many there are and however slow the server is, so that a refund by
// another process is heard of. When one may pass, all ask that call before the answer comes. So
// of a flood on a key that is used up, the server gets one call in LeaseTime from each process,
// and what comes within a round trip each time that one more may pass.
//
// # Limits that differ
//
// Keys may have limits of their own (Config.LimitFor), calls too (AllowLimit), and the limit may
// change while the limiter runs (SetLimit). The server counts and keeps no limits: each process
// decides by its own. A lease that was taken under a larger limit is served until it ends,
// unless the limit is 0: so for LeaseTime, a process may admit as many as it has leased beyond
// a limit that has become smaller, or beyond the smaller limit of a call.
//
// # When no server answers
//
// A call waits for Config.Timeout at most. If there is no answer by then, or one that is
// no decision (LOADING, CLUSTERDOWN, NOAUTH and so on), Config.WhenAway answers: see [Policy]. The decision is marked as Degraded. After 5 such calls in a row,
// no more are sent, and the policy answers at once; every 200 ms, one call is sent again
// to see whether the server is back. That it is away and that it is back is logged once
// each, and counted: see [Link].
//
// After a call that was not answered in time, none is sent for 10 ms either, unless another
// is answered meanwhile. Limiters that have the same Timeout and share a client share what
// they know of its servers, and tell the logger of the one that found it out. So a request
// that several limits decide, one after the other, waits for a server that hangs once.
//
// A server that answers but rejects writes (OOM, READONLY, NOREPLICAS, MISCONF) is not away. It
// still blocks the calls that are over their limit. The policy decides the calls that would have
// to be charged. This is logged once an hour.
//
// Timeout bounds the wait for a server, not the time that the process waits for a processor. On a
// machine without CPU to spare, single calls took 100ms to 830ms with a Timeout of 50ms, and
// answers that lie unread count as failures of the server.
//
// # Clusters
//
// If the client can name the server of a key (viagoredis), each server of a Cluster has a breaker
// of its own. The keys of healthy servers are then decided by those, whatever becomes of the
// others. Otherwise (viarueidis), all keys of a client share one breaker: while one server is away,
// five calls in a row for its keys open the breaker for all keys, until a probe for a key of a
// healthy server closes it.
//
// Healthy servers must go on answering: with cluster-require-full-coverage yes, which is the
// default of servers, all servers reject calls (CLUSTERDOWN) as soon as any slot is not
// covered, and then the policy decides for all keys. With replicas, that ends when one has
// taken over. Without replicas, set cluster-require-full-coverage no. Which keys are on the
// lost server is chance: of two limits of one client, one may be shared and the other not. The
// processes that share a limit are counted on one of the servers: while that one is away,
// the count is not renewed.
//
// What a server denies to its user inside a script, such as a command or a key of another
// prefix, is denied for all keys of the limiter: for this one it is as if the server were away,
// and the log names the command. Other limiters that share the client go on. If only the heartbeat
// is denied, that is logged, and the processes are not counted.
//
// A key that holds what no limiter of this kind wrote (WRONGTYPE, or a value that cannot be
// read) is decided by the policy, and no other key with it. What it holds is left as it is.
// The log names the type of the value and the Prefix. Both kinds of faults are logged once
// an hour while they last, and counted as Failures: see [Link].
//
// What is refused without a server has a RetryAfter of 20 ms at least, so that a caller that
// heeds it is no flood.
//
// A call is never sent again when it may have been executed. If its answer comes after its
// caller has been told what the policy says, what it took is given back.
//
// When the caller's context ends while the server is asked, the call returns the context's
// error, but the question goes on. What the server takes stays taken, and a refusal is
// remembered. So a client that hangs up gains nothing, and causes no more calls. If there is no
// answer within Config.Timeout, that counts as a failure of the server, as for any call.
//
// # What the limit means
//
// A log never admits more than Limit in any window of that length, by the server's
// clock; a counter, just under twice that, as [limit.NewCounter] explains; a burst, Limit +
// Burst − 1. Of calls in flight, there are never more than Limit, as long as each ends before
// its lease does, or renews it. That holds as long
// as the server keeps what it has acknowledged: replication is asynchronous, so after a
// failover the new primary may not know the last admissions of the old one; and with a
// maxmemory-policy other than noeviction, a full server forgets keys. If the clock of the
// server is set back, a key stays at the time that it had reached until the clock is there
// again. With Local and Allow, what is admitted while the server is away is not counted
// there.
//
// # What a server must allow
//
// A user of the server that is for limiters alone needs EVALSHA, EVAL and the names that begin
// with Prefix (Redis: ~api:*), and inside the scripts
//
//   - TIME,
//   - for a counter: GET, SET, SETRANGE; for a burst: GET, SET;
//   - for a log: ZRANGE, ZRANGEBYSCORE, ZRANK, ZCARD, ZADD, ZREM, ZREMRANGEBYSCORE, PTTL,
//     PEXPIRE, UNLINK;
//   - for calls in flight: ZRANGE, ZCOUNT, ZADD, ZREM, ZREMRANGEBYSCORE, ZSCORE, PEXPIRE;
//   - for the heartbeat, with Local and without Instances: ZADD, ZREM, ZRANGEBYSCORE, ZCOUNT,
//     ZRANK, PEXPIRE;
//   - TYPE, for Reset of a log, and to log what a key of another holds.
//
// The README has the commands that make such users, with what the client libraries need.
package leapredis
