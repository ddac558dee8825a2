package main

import (
	"flag"
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
)

var checkCommand = command{
	name:      "check",
	arguments: "[-q] FILE...",
	about: `Check reads rule files and prints a table that says in words what each rule means. If
anything is wrong with a file, it prints all of that instead, as file:line:column: message
to standard error, and the exit code is 1. What is allowed, but probably not meant, it prints
as a warning: a file that says that it has no rules, a name that looks like a pattern, a maxWait
without behavior: pace, buckets with it.

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
			fmt.Fprintln(std.err, err)
			code = exitFaults
			continue
		}
		for _, note := range in.notes {
			fmt.Fprintln(std.err, note)
		}
		if in.skipped() {
			code = exitFaults
		}
		for _, warning := range warnings(in.rules) {
			fmt.Fprintf(std.err, "%s: warning: %s\n", escape.Text(in.name), warning)
		}
		if quiet {
			continue
		}
		if i > 0 {
			fmt.Fprintln(std.out)
		}
		fmt.Fprintf(std.out, "%s: %s, %s\n", escape.Text(in.name),
			counted(len(in.rules.Flow), "flow rule"), counted(len(in.rules.Isolation), "isolation rule"))
		if err := printTable(std.out, in.rules); err != nil {
			fmt.Fprintln(std.err, "leapgate check:", err)
			return exitFaults
		}
	}
	return code
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
