// Package rulefile keeps the rules of a gate, and the limits of keyed limiters, in files: YAML or
// JSON, one file or a folder of them, read again whenever they change.
//
//	watcher, err := rulefile.Watch(rulefile.Config{Path: "/etc/shop/rules.yaml", Gate: gate})
//	…
//	defer watcher.Close()
//
// [Watch] loads the rules and then reads the path once a second. It notices a file that is written in place, replaced
// by a rename or reached through another symbolic link, as in a Kubernetes ConfigMap, also on network file systems. A
// change is loaded when two readings in a row find it. A missing or invalid file changes nothing: the last good rules
// stay, and [Watcher.Status] reports the error.
//
// The safe way to change a file is to write another file in the same folder and rename it; see [Watch].
//
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
// The fields are those of [flow.Rule], [isolation.Rule], [breaker.Rule], [param.Rule] and [system.Rule], with a small
// letter at the beginning: maxWait is MaxWait. docs/rules.md in the repository has a table of each kind, with
// ranges and defaults: https://github.com/leapgate-go/leapgate/blob/main/docs/rules.md. A param rule's items may be
// a mapping, {vip: 10, ban: 0}, as well as text, "vip=10, ban=0". What cannot be left out in a file: the resource, and
// threshold of flow, maxInFlight of isolation and arg of param.
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
// rules says so: with flow: [], isolation: [], breaker: [], param: [] or system: [], or as an empty list, [].
// One with limits needs no rules. An empty limits is an error likewise; {} is none.
package rulefile
