// Package rulefile keeps the rules of a gate, and the limits of keyed limiters, in files: YAML or
// JSON, one file or a folder of them, read again whenever they change.
//
//	watcher, err := rulefile.Watch(rulefile.Config{Path: "/etc/shop/rules.yaml", Gate: gate})
//	…
//	defer watcher.Close()
//
// [Watch] loads the rules and follows the file: written in place, replaced by another, or
// swapped by a symbolic link, as Kubernetes does. A change is loaded when the file has been still
// for a second. A file that is no good, or gone, changes nothing: the last good rules stay,
// and [Watcher.Status] says what is wrong.
//
// The safe way to change a file is to write another beside it and rename that over it; then
// nobody ever reads half of it. See [Watch].
// [Parse] and [Read] only read, [ParseFile] and [ReadFile] limits too; [YAML] and [JSON] write. Package sentinel translates the rules
// of Alibaba Sentinel. The command leapgate checks and converts files.
//
// # Rule files
//
// A rule file is a mapping with a list for each kind of rule, any of which may be left out:
//
//	flow:
//	  - id: orders-qps
//	    resource: GET /orders
//	    threshold: 100
//	  - resource: "GET /*"
//	    match: glob
//	    threshold: 1000
//	    interval: 1m
//	    mode: shadow
//	isolation:
//	  - resource: db.query
//	    maxInFlight: 20
//	    maxWait: 500ms
//	  - resource: GET /search
//	    strategy: adaptive
//	    maxInFlight: 200
//	breaker:
//	  - resource: db.query
//	    errorRatio: 0.5
//	    slowRatio: 0.8
//	    slowAfter: 1s
//	param:
//	  - resource: GET /item
//	    arg: tenant
//	    threshold: 50
//	    items: {vip: 500, ban: 0}
//	system:
//	  - resource: "GET *"
//	    match: glob
//	    maxCPU: 0.9
//	    maxInFlight: 500
//
// JSON has the same fields.
//
// # Limits
//
// Beside the rules, a file may have limits of the program's keyed limiters, by the names that
// Config.Limits has for them:
//
//	limits:
//	  per-tenant:
//	    limit: 60
//	    window: 1m
//	    plans: {acme: 600, partner: -1, banned: 0}
//
// They hold for calls that come after the load; what was counted stays. What is left out is as
// the program has made the limiter, and so is a limiter that is not in the files. A name that the
// program does not have is an error.
//
//	field   value              default        meaning
//	limit   0 to MaxLimit      the program's  calls of a key in a window, or in flight; 0 refuses all
//	window  1ms to 8784h       the program's  what limit is for
//	burst   1 or more          the program's  calls at once, for those of limit.NewBurst; not of leapredis
//	plans   a mapping          none           limits of single keys: 0 refuses all, -1 admits all. Keys are as
//	                                          the limiter gets them, whole
//	mode    enforce, shadow,   the program's  what is done with the decision
//	        off
//
// MaxLimit is that of [limit.Config], and bounds the plans too. A limiter keeps the window that it
// was made with: what it has counted cannot be divided otherwise. A file with another is an
// error of a running program. A program that makes its limiters by [Limit.Config] has the window
// of the file from its next start on. What leaphttp counts by has at most 64 bytes: a longer key
// is in plans as leaphttp.LimiterKey has it.
//
// Rules and limits of all files are loaded together, or none of them. [Watcher.Save] changes rules,
// and leaves limits as they are.
//
// # Fields of rules
//
// The rules of flow are [flow.Rule], which says more about each field:
//
//	field                value               default     meaning
//	id                   up to 1,040 bytes   resource/1  names the rule; unique among the flow rules of a gate
//	resource             1 to 1,024 bytes    required    the resource, or the pattern; none with match default, all
//	match                exact, glob,        exact       what resource is
//	                     regexp, default, all
//	origin               up to 1,024 bytes   everyone    one caller, or other
//	threshold            0 or more           required    calls admitted per interval; 0 blocks all
//	candidate            0 or more           0, none     a threshold that is tried and blocks nothing
//	interval             1ms to 24h          1s          the length of the window
//	buckets              1 to 1,000          10          into which the interval divides, at least 1ms each;
//	                                                     none with pace
//	strict               true, false         false       bounds every interval, wherever it begins
//	behavior             reject, pace        reject      what happens beyond it
//	maxWait              0s to 24h           0s; 500ms   how long a call waits with pace; with reject, one with
//	                                                     priority, at most interval
//	strategy             direct, warm-up,    direct      how the threshold comes about
//	                     memory-adaptive
//	warmUpPeriod         1s to 24h           required    from cold to warm, with strategy warm-up
//	coldFactor           over 1, to 1,000    3           threshold when warm by that when cold
//	highMemoryThreshold  0 to threshold      0           the threshold from highMemory on
//	lowMemory            1 byte or more      required    with strategy memory-adaptive: up to here threshold holds
//	highMemory           over lowMemory      required    and from here on highMemoryThreshold
//	associated           a resource          none        the rule blocks while that passes more than threshold
//	mode                 enforce, shadow,    enforce     what is done with the decision
//	                     off
//
// Those of isolation are [isolation.Rule]:
//
//	field            value               default     meaning
//	id               up to 1,040 bytes   resource/1  names the rule; unique among the isolation rules of a gate
//	resource         1 to 1,024 bytes    required    the resource, or the pattern; none with match default, all
//	match            exact, glob,        exact       what resource is
//	                 regexp, default,
//	                 all
//	maxInFlight      1 to 1,000,000,000  required    calls in flight; the largest limit with strategy adaptive
//	strategy         fixed, adaptive     fixed       how the limit comes about; adaptive: by how long calls take
//	minInFlight      1 to maxInFlight    4           the smallest limit, with strategy adaptive
//	initialInFlight  minInFlight to      20          the first limit, with strategy adaptive
//	                 maxInFlight
//	tolerance        over 0, to 10       0.25        how much longer calls may take than without a queue, with
//	                                                 strategy adaptive
//	maxRT            over 0s, to 24h     none        the limit falls while calls take longer on average, with
//	                                                 strategy adaptive
//	maxWait          0s to 24h           0s          how long a call waits for a place
//	maxQueue         1 to 1,000,000      1,000       how many calls wait at once; with maxWait only
//	mode             enforce, shadow,    enforce     what is done with the decision
//	                 off
//
// Those of breaker are [breaker.Rule]. One of errorRatio, slowRatio, errorCount and consecutive
// must be set, unless the behavior is throttle:
//
//	field         value               default     meaning
//	id            up to 1,040 bytes   resource/1  names the rule; unique among the breaker rules of a gate
//	resource      1 to 1,024 bytes    required    the resource, or the pattern; none with match default, all
//	match         exact, glob,        exact       what resource is
//	              regexp, default, all
//	interval      1ms to 24h          10s         the window of the results
//	buckets       1 to 1,000          10          into which the interval divides, at least 1ms each
//	minCalls      1 to 1,000,000,000  10          results below which nothing opens it
//	behavior      break, throttle     break       throttle refuses a share, and has no states
//	errorRatio    over 0 to 1         0, none     share of failures that opens it
//	slowRatio     over 0 to 1         0, none     share of slow calls that opens it
//	slowAfter     up to 24h           required    what takes longer is slow; with slowRatio
//	errorCount    1 to 1,000,000,000  0, none     failures in the window that open it
//	consecutive   1 to 1,000,000,000  0, none     failures in a row that open it
//	openFor       1ms to 24h          5s          how long it is open
//	maxOpenFor    openFor to 24h      openFor     each opening in a row is twice as long, up to this
//	probes        1 to 1,000          3           calls that decide, half-open, whether it closes
//	probeTimeout  1ms to 24h          openFor     a probe that takes so long is bad
//	ramp          1ms to 24h          0s, none    from a tenth of the calls to all, once it has closed
//	k             1 to 1,000          2           with throttle, calls for each success before any is refused
//	maxReject     over 0 to 1         0.9         with throttle, the largest share that is refused
//	force         none, open, closed  none        keeps it open or closed, whatever happens
//	mode          enforce, shadow,    enforce     what is done with the decision
//	              off
//
// Those of param are [param.Rule]:
//
//	field        value               default     meaning
//	id           up to 1,040 bytes   resource/1  names the rule; unique among the param rules of a gate
//	resource     1 to 1,024 bytes    required    the resource, or the pattern; none with match default, all
//	match        exact, glob,        exact       what resource is
//	             regexp, default, all
//	arg          names of arguments  required    whose values are counted; several, with commas, together
//	threshold    0 to 16,777,214     0           calls with one value admitted per interval; 0 blocks all
//	candidate    0 to 16,777,214     0, none     a threshold that is tried and blocks nothing
//	interval     1ms to 24h          1s          what threshold is for
//	behavior     reject, bucket,     reject      what happens beyond it
//	             pace
//	burst        1 to 16,777,214     threshold   with bucket, calls at once
//	maxWait      0s to 24h           0s          with pace, how long a call waits for its turn
//	maxInFlight  1 to 16,777,214     0, none     instead of threshold: calls in flight with one value
//	items        a mapping, or text  none        limits of single values: {vip: 10, ban: 0, free: -1, 10.0.0.0/8: 100},
//	                                             or vip=10, ban=0
//	missing      skip, shared,       skip        what becomes of calls without the argument
//	             block
//	maxKeys      1 to 10,000,000     100,000     values that are counted at a time
//	whenFull     evict, deny, share  evict       what becomes of a new value when there are so many
//	top          1 to 1,000          0, none     busiest and most refused values that are told; without threshold
//	                                             and maxInFlight nothing is blocked
//	mode         enforce, shadow,    enforce     what is done with the decision
//	             off
//
// Those of system are [system.Rule]. One of the bounds, maxCPU to maxInFlight, must be set:
//
//	field            value               default     meaning
//	id               up to 1,040 bytes   resource/1  names the rule; unique among the system rules of a gate
//	resource         1 to 1,024 bytes    required    the resource, or the pattern; none with match default, all
//	match            exact, glob,        exact       what resource is; all that match are counted together
//	                 regexp, default, all
//	maxCPU           over 0 to 1         0, none     share of the processors that the container may use
//	maxThrottled     over 0 to 1         0, none     share of the periods in which its quota runs out
//	maxPressure      over 0 to 1         0, none     share of the time in which something waits for a processor
//	maxSchedLatency  1us to 1m           0s, none    how long goroutines wait until they run, 99 % of them
//	maxRT            1ms to 24h          0s, none    mean response time of the calls that succeed
//	maxQPS           1 to 1,000,000,000  0, none     calls in a second
//	maxInFlight      1 to 1,000,000,000  0, none     calls in flight
//	strategy         limit, refuse       limit       finds how many may be in flight, or lets nothing pass
//	coolOff          1ms to 1h           10s; 1s     how long all must be well; 1s with refuse
//	mode             enforce, shadow,    enforce     what is done with the decision
//	                 off
//
// Durations are text with a unit, as [time.ParseDuration] reads it: 250ms, 1s, 1h30m.
// Memory is a number of bytes, or text with a unit of GOMEMLIMIT: B, KiB, MiB, GiB, TiB.
// Numbers are decimal, as in JSON. What an ID or a name is must be text: "404", in quotes.
//
// An unknown field, a field that is there twice, a value of another type are errors, and so
// is whatever [leapgate.Rules.Validate] refuses. All of them are told at once,
// with line and column.
//
// # What is not read
//
// Of YAML, a rule file has what JSON can say: no anchors and aliases, no merge keys, no tags,
// and one document. Text is UTF-8; a byte order mark is skipped. A file may have 4 MiB and
// 250,000 values and keys, 32 lists and mappings in each other; a folder 16 MiB and 1,000
// files. Within these limits, the worst file takes some 200 MB while it is read. A regular
// expression may have 2,000 steps, repetitions written out, and all patterns of one kind of
// rules 500,000.
//
// # No rules
//
// A file that is blank, or has nothing but comments or an empty flow, is an error, since files are
// emptied, or cut off, by accident, and that would lift all limits. One that is to have no
// rules says so: with flow: [], isolation: [], breaker: [], param: [] or system: [], with rules: none, or as an empty list, [].
// One with limits needs no rules. An empty limits is an error likewise; {} is none.
package rulefile
