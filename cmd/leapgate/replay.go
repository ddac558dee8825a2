package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rulefile/sentinel"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
	"github.com/leapgate-go/leapgate/whatif/page"
)

var replayCommand = command{
	name:      "replay",
	arguments: "[flags] FILE...",
	about: `Replay reads access logs, sends their requests through rules on the time of the log, and
prints what the rules would have done: what they would have blocked, when and whom. Without rules it
prints what limits per client would have blocked.

	leapgate replay -rules new.yaml access.log*                     what would be blocked
	leapgate replay -rules new.yaml -against live.yaml access.log   who is better or worse off
	leapgate replay -suggest access.log.gz                          which limit would bother whom
	leapgate replay -rules new.yaml -max-blocked 1% access.log      exit code 1 if more is blocked

The FILEs are one log in any order; - is standard input. What is packed with gzip is unpacked.
The formats that are known by the lines themselves are ` + strings.Join(accesslog.Names(), ", ") + `.

The resource of a request is its method and the pattern of its path, such as GET /items/{id}. The
exact resources of the rules are such patterns, and -route adds more. For other paths they are
found: what is a number or the like, or has too many values, becomes {}. Paths at which nothing was
ever found are GET (unmatched), as in the middleware.

Rules in mode shadow are tried as if they were enforced. Those of -against block nothing.

The log is kept in memory: up to 200 bytes for each of at most 10,000,000 requests, 350 bytes for each client,
and 200 more for each client and limit or rule per client.

The exit code is 1 if -max-blocked is exceeded, and 2 if there is no answer: if flags or files
cannot be read, or nothing in the log.
`,
	prepare: func(flags *flag.FlagSet) func([]string, streams) int {
		r := new(replay)
		flags.StringVar(&r.rules, "rules", "", "the rules of a `file` or folder")
		flags.Func("rule", "a `rule`, prefix=threshold/interval, such as /api=60/1m, for all paths that begin so, and that no longer prefix of another counts; with ,strict wherever the interval begins, with ,per-key for each key; may be given again", appendTo(&r.rule))
		flags.StringVar(&r.against, "against", "", "compare with the rules of a `file`, which are in force")
		flags.BoolVar(&r.suggest, "suggest", false, "suggest a limit per key")
		flags.Func("train", "suggest from the requests of a `period`, such as 2024-05-12..2024-05-17: dates or times, the end not included, either may be left out", periodInto(&r.train))
		flags.Func("test", "and say what that does to those of another `period`", periodInto(&r.test))
		flags.Func("window", "what limits per key are for, such as 1m; may be given again", func(text string) error {
			window, err := time.ParseDuration(text)
			r.windows = append(r.windows, window)
			return err
		})
		flags.StringVar(&r.key, "key", clientKey, "the `column` that has the key of a request, as the format names it; client is the address, of IPv6 its first 64 bits")
		flags.StringVar(&r.arg, "arg", keyArg, "the argument of param rules that the key is")
		flags.Func("route", "a `pattern` of paths, such as 'GET /items/{id}'; may be given again", appendTo(&r.routes))
		flags.Func("format", "the `format`: one of the names above, a log_format of nginx, or for JSON the members by what they are, such as json:end=ts,uri=request.uri", func(text string) (err error) {
			r.format, err = accesslog.ParseFormat(text)
			return err
		})
		flags.Func("max-blocked", "fail if the rules block more than this `share`, such as 1%", func(text string) error {
			share, err := parseShare(text)
			r.maxBlocked = &share
			return err
		})
		flags.StringVar(&r.html, "html", "", "write a page to a `file`; - is standard output, instead of text")
		flags.StringVar(&r.json, "json", "", "write JSON to a `file`; - is standard output, instead of text")
		return func(args []string, std streams) int { return r.run(args, std) }
	},
}

const (
	clientKey = "client"
	keyArg    = "client"
)

// replay holds the values of the flags.
type replay struct {
	rules, against, key, arg, html, json string
	rule, routes                         []string
	suggest                              bool
	train, test                          *period
	windows                              []time.Duration
	format                               accesslog.Format
	maxBlocked                           *float64
}

func appendTo(list *[]string) func(string) error {
	return func(text string) error {
		*list = append(*list, text) // parsed later, so that all faults show at once
		return nil
	}
}

// parseShare reads "1%" or "0.01".
func parseShare(text string) (share float64, err error) {
	number, percent := strings.CutSuffix(text, "%")
	if share, err = strconv.ParseFloat(number, 64); percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) || share == 1 && !percent {
		return 0, errors.New("want 0% to 100%, or a number of at least 0 below 1")
	}
	return share, nil
}

// check returns all errors in the combination of flags.
func (r *replay) check(args []string) error {
	var faults []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	tried := r.rules != "" || len(r.rule) > 0
	wrong(len(args) == 0, "no file; want at least one, or - for standard input")
	for _, arg := range args {
		wrong(len(arg) > 1 && arg[0] == '-', "%s comes after a file; want flags first", arg)
	}
	wrong(r.against != "" && !tried, "-against without -rules or -rule; want something to compare")
	wrong(r.suggest && (tried || r.against != "" || r.maxBlocked != nil), "-suggest together with rules; want one of both, for it tries none")
	wrong(!r.suggest && (r.train != nil || r.test != nil), "-train or -test without -suggest, for which they are")
	wrong(r.test != nil && r.train == nil, "-test without -train; want two periods")
	wrong(r.maxBlocked != nil && !tried, "-max-blocked without -rules or -rule; want something that blocks")
	return errors.Join(faults...)
}

func (r *replay) run(args []string, std streams) int {
	before, after, err := r.configs(args)
	if err = errors.Join(err, r.checkOutputs(args)); err != nil {
		return misused(std, "replay", "%w", err)
	}
	d, err := r.try(args, before, after, std)
	if err != nil {
		printError(std.err, "leapgate replay: ", err)
		return exitUsage
	}
	return r.judge(d, std.err)
}

// configs returns the rules to try. If there is nothing to compare with, before is nil.
func (r *replay) configs(args []string) (before, after *whatif.Config, err error) {
	faults := []error{r.check(args)}
	after = &whatif.Config{Arg: r.arg, Windows: r.windows}
	if after.Rules, err = parseRules(r.rule); err != nil {
		faults = append(faults, err)
	}
	load := func(name, flag string, into *whatif.Config) {
		in, err := load(name, strings.NewReader(""))
		for _, loss := range in.losses {
			if loss.Effect == sentinel.Skipped {
				faults = append(faults, fmt.Errorf("%s: %s", flag, loss))
			}
		}
		faults = append(faults, err)
		into.Rules = join(into.Rules, in.Rules)
		into.Limits = in.Limits
	}
	if r.rules != "" {
		load(r.rules, "-rules", after)
	}
	if r.against != "" {
		c := *after
		before, c.Rules, c.Limits = &c, leapgate.Rules{}, nil
		load(r.against, "-against", before)
	}
	return before, after, errors.Join(faults...)
}

// try reads the log, tries the rules, and writes the result.
func (r *replay) try(args []string, before, after *whatif.Config, std streams) (*page.Document, error) {
	log, err := accesslog.Open(args, r.options(before, after, std.in))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	seen := log.Seen()
	d := &page.Document{Log: &seen}
	if seen.Step >= time.Millisecond {
		after.Resolution = seen.Step
		if before != nil {
			before.Resolution = seen.Step
		}
	}
	switch {
	case r.suggest:
		var test whatif.Source
		if r.test != nil {
			test = r.test.of(log.Requests)
		}
		d.Suggestion, err = whatif.Suggest(ctx, *after, r.train.of(log.Requests), test)
	case before != nil:
		d.Comparison, err = whatif.Compare(ctx, *before, *after, log.Requests)
	default:
		d.Report, err = whatif.Run(ctx, *after, log.Requests)
	}
	if err == nil {
		err = r.write(d, std.out)
	}
	return d, err
}
