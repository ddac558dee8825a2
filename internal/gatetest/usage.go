package gatetest

import (
	"io"
	"strings"
	"testing"
)

// RequireNoArguments requires that a program takes no flags and no arguments and says so
// on stderr. run is its main function, which returns the exit code.
func RequireNoArguments(t *testing.T, name string, run func(args []string, stdout, stderr io.Writer) int) {
	t.Helper()
	usage := "Usage: " + name + "\n\nIt takes no flags and no arguments.\n"
	for _, c := range []struct {
		arg  string
		code int
		want string
	}{
		{"-h", 0, usage},
		{"--help", 0, usage},
		{"-speed=2", 2, "flag provided but not defined: -speed\n" + usage},
		{"fast", 2, name + ": \"fast\" is not known; want no arguments\n"},
	} {
		var stdout, stderr strings.Builder
		code := run([]string{c.arg}, &stdout, &stderr)
		if code != c.code || stdout.String() != "" || stderr.String() != c.want {
			t.Errorf("%s %s: code %d, stdout %q, stderr %q; want code %d, nothing, %q", name, c.arg, code, stdout.String(), stderr.String(), c.code, c.want)
		}
	}
}
