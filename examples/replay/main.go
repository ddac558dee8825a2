// Replay reads a web server's log and shows what rules would have done to its
// traffic: what each admitted and blocked, when it first blocked, and the busiest
// seconds.
//
//	go run ./examples/replay -rule '/api=60/1m' -rule '/api/search=5/1s,strict' access.log
//
// A rule is prefix=threshold/interval. The longest prefix that a path begins with
// decides which resource a request belongs to; several rules with the same prefix
// must all admit it. With ",strict", a rule bounds every interval of that length
// and not only the window of whole buckets. Without rules one still sees the busiest
// seconds, and knows what to try.
//
// The log is in the combined format of nginx and Apache. The gate's clock is that
// of the log, so that days are replayed in no time and every run has the same result.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/leapgate-go/leapgate/flow"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: replay [flags] access.log")
		flags.PrintDefaults()
	}
	var texts []string
	flags.Func("rule", "a `rule`, prefix=threshold/interval[,strict], such as /api=60/1m; may be given again", func(text string) error {
		texts = append(texts, text) // parsed below, so that all faults show at once
		return nil
	})
	top := flags.Int("top", 5, "how many of the busiest seconds to show")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	rules, err := parseRules(texts)
	if *top < 0 {
		err = errors.Join(err, fmt.Errorf("-top is %d; want 0 or more", *top))
	}
	if flags.NArg() != 1 {
		err = errors.Join(err, fmt.Errorf("%d files are given; want one, after the flags", flags.NArg()))
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\nreplay -h tells more\n", err)
		return 2
	}

	if err := replayFile(flags.Arg(0), rules, *top, stdout); err != nil {
		fmt.Fprintln(stderr, "replay:", err)
		return 1
	}
	return 0
}

func replayFile(path string, rules []flow.Rule, top int, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	log, err := readLog(file)
	if err != nil {
		return err
	}
	result, err := replay(log.requests, rules)
	if err != nil {
		return err
	}
	return report(out, log, result, top)
}
