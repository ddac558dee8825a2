// Package program is what the examples have in common as programs: how they read their flags, and
// their exit codes, which are 0, 1 after a failure, and 2 if they were called in a wrong way.
package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Main is the main function of a program without flags.
func Main(name string, show func(out io.Writer) error) {
	os.Exit(run(name, os.Args[1:], os.Stdout, os.Stderr, show))
}

func run(name string, args []string, stdout, stderr io.Writer, show func(out io.Writer) error) (code int) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintf(stderr, "Usage: %s\n\nIt takes no flags and no arguments.\n", name) }
	if code, ok := Parse(flags, args, stderr); !ok {
		return code
	}
	return Code(flags, show(stdout))
}

// Parse reads the flags of a program, which takes nothing else, and reports whether it is to go on.
// If not, it exits with the code.
func Parse(flags *flag.FlagSet, args []string, stderr io.Writer) (code int, ok bool) {
	flags.SetOutput(stderr)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0, false
	case err != nil:
		return 2, false
	case flags.NArg() > 0:
		return Wrong(flags, "%q is not known; want no arguments", flags.Arg(0)), false
	default:
		return 0, true
	}
}

// Wrong says what is wrong with the arguments, and returns the exit code.
func Wrong(flags *flag.FlagSet, format string, args ...any) (code int) {
	fmt.Fprintf(flags.Output(), flags.Name()+": "+format+"\n", args...)
	return 2
}

// Code says how a program has failed, if it has, and returns the exit code.
func Code(flags *flag.FlagSet, err error) (code int) {
	if err == nil {
		return 0
	}
	fmt.Fprintf(flags.Output(), "%s: %v\n", flags.Name(), err)
	return 1
}
