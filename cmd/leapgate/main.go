// Leapgate checks and converts rule files, and tries them on access logs.
//
//	leapgate check rules.yaml        # what is wrong, or what the rules mean
//	leapgate convert sentinel.json   # rules of Sentinel as a rule file
//	leapgate replay -rules rules.yaml access.log*   # what the rules would have blocked
//	leapgate version
//
// It is installed by
//
//	go install github.com/leapgate-go/leapgate/cmd/leapgate@latest
//
// Faults go to standard error, one to a line, as file:line:column: message. The exit code is
// 0 if all is well, 1 if a file has faults, or rules would block more than replay is told to allow, 2 if the command was not understood.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK     = 0
	exitFaults = 1
	exitUsage  = 2
)

const usage = `Leapgate checks and converts rule files, and tries them on access logs.

Usage:

	leapgate <command> [flags] [arguments]

The commands are:

	check     tell what is wrong with rule files, or what their rules mean
	convert   write rules as a rule file; also those of Sentinel
	replay    tell what rules would have done to the requests of an access log
	version   tell the version

Use "leapgate <command> -h" for more about a command.
`

type command struct {
	name, arguments, about string
	// prepare defines the flags, and returns what runs when they have been read.
	prepare func(flags *flag.FlagSet) func(args []string, std streams) int
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

var commands = []command{checkCommand, convertCommand, replayCommand, versionCommand}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := streams{stdin, stdout, stderr}
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case "help":
		if len(args) == 1 {
			fmt.Fprint(stdout, usage)
			return exitOK
		}
		args = []string{args[1], "-h"}
	case "-version", "--version":
		args = []string{"version"}
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:], std)
		}
	}
	fmt.Fprintf(stderr, "leapgate: unknown command %s; want check, convert, replay or version\nRun \"leapgate help\" for usage.\n", escape.Text(args[0]))
	return exitUsage
}

func (c command) run(args []string, std streams) int {
	flags := flag.NewFlagSet("leapgate "+c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors and help are printed here, each to where it belongs
	action := c.prepare(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(std.out, "Usage: leapgate %s %s\n\n%s", c.name, c.arguments, c.about)
		some := false
		flags.VisitAll(func(*flag.Flag) { some = true })
		if some {
			fmt.Fprint(std.out, "\nFlags:\n")
			flags.SetOutput(std.out)
			flags.PrintDefaults()
		}
		return exitOK
	case err != nil:
		return misused(std, c.name, "%v", err)
	}
	return action(flags.Args(), std)
}

// misused reports that a command was called with the wrong arguments.
func misused(std streams, name, format string, args ...any) int {
	printError(std.err, "leapgate "+name+": ", fmt.Errorf(format, args...))
	fmt.Fprintf(std.err, "Run \"leapgate %s -h\" for usage.\n", name)
	return exitUsage
}

// printError prints each line of an error after a prefix. Control characters are escaped, since errors contain the
// names of files.
func printError(w io.Writer, prefix string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(w, prefix+escape.Text(line))
	}
}
