package main

import (
	"flag"
	"fmt"
)

var convertCommand = command{
	name:      "convert",
	arguments: "[-json] FILE",
	about: `Convert reads a rule file, or a JSON array of Sentinel's flow, isolation, hotspot, circuit
breaker or system rules, and writes the rules as a rule file to standard output. Comments are lost. What could not be
translated, or means something else now, goes to standard error as file:line:column: what,
and the exit code is 1 if a rule was left out.

FILE may be a folder, or - for standard input.
`,
	prepare: func(flags *flag.FlagSet) func([]string, streams) int {
		json := flags.Bool("json", false, "write JSON instead of YAML")
		return func(args []string, std streams) int { return convert(args, *json, std) }
	},
}

func convert(args []string, json bool, std streams) int {
	if len(args) != 1 {
		return misused(std, "convert", "%d files; want one", len(args))
	}
	in, err := load(args[0], std.in)
	if err != nil {
		printError(std.err, "", err)
		return exitFaults
	}
	write := in.YAML
	if json {
		write = in.JSON
	}
	text, err := write()
	if err == nil {
		_, err = std.out.Write(text)
	}
	if err != nil {
		printError(std.err, "leapgate convert: ", err)
		return exitFaults
	}
	for _, loss := range in.losses {
		fmt.Fprintln(std.err, loss)
	}
	if in.skipped() {
		return exitFaults
	}
	return exitOK
}
