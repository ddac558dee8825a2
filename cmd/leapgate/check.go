package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rulefile"
)

var checkCommand = command{
	name:      "check",
	arguments: "[-q] FILE...",
	about: `Check reads rule files and prints a table that says in words what each rule means. If
anything is wrong with a file, it prints all of that instead, as file:line:column: message
to standard error, and the exit code is 1. What is allowed, but probably not meant, it prints
as a warning: a file that says that it has no rules, a name that looks like a pattern or has blanks
at an end, a maxWait without behavior: pace, buckets with it, a minCalls that is more than other
rules admit.

Which keyed limiters there are, and how large their limits may be, only the program knows: of
limits, check tells what no program could load.

A FILE may be a folder of rule files, whose rules belong together, or - for standard input.
Several FILEs are checked each by itself. JSON arrays of Sentinel's rules are recognised by
their fields, and checked for what Leapgate can do; "leapgate convert" translates them.
`,
	prepare: func(flags *flag.FlagSet) func([]string, streams) int {
		quiet := flags.Bool("q", false, "print faults only")
		return func(args []string, std streams) int { return check(args, *quiet, std) }
	},
}

func check(args []string, quiet bool, std streams) int {
	if len(args) == 0 {
		return misused(std, "check", "no file; want at least one")
	}
	code := exitOK
	for i, arg := range args {
		in, err := load(arg, std.in)
		if err != nil {
			printError(std.err, "", err)
			code = exitFaults
			continue
		}
		for _, loss := range in.losses {
			fmt.Fprintln(std.err, loss)
		}
		if in.skipped() {
			code = exitFaults
		}
		for _, warning := range warnings(in.File) {
			fmt.Fprintf(std.err, "%s: warning: %s\n", escape.Text(in.name), warning)
		}
		if quiet {
			continue
		}
		if i > 0 {
			fmt.Fprintln(std.out)
		}
		fmt.Fprintf(std.out, "%s: %s\n", escape.Text(in.name), counts(in.File))
		if err := printTable(std.out, in.File); err != nil {
			printError(std.err, "leapgate check: ", err)
			return exitFaults
		}
	}
	return code
}

// counts returns how many rules of each kind there are, and how many limits if there are any:
// "1 flow rule, 0 isolation rules, 2 limits".
func counts(f rulefile.File) string {
	var all []string
	count := func(n int, what string) {
		if n != 1 {
			what += "s"
		}
		all = append(all, fmt.Sprintf("%d %s", n, what))
	}
	for _, k := range kinds.All {
		count(k.Len((*kinds.Rules)(&f.Rules)), k.Name()+" rule")
	}
	if n := len(f.Limits); n > 0 {
		count(n, "limit")
	}
	return strings.Join(all, ", ")
}
