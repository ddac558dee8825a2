package program

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_ArgumentsAreAnsweredWithUsage(t *testing.T) {
	t.Parallel()
	usage := "Usage: warmup\n\nIt takes no flags and no arguments.\n"
	for _, c := range []struct {
		arg  string
		code int
		want string
	}{
		{"-h", 0, usage},
		{"--help", 0, usage},
		{"-speed=2", 2, "flag provided but not defined: -speed\n" + usage},
		{"fast", 2, "warmup: \"fast\" is not known; want no arguments\n"},
	} {
		var stdout, stderr strings.Builder
		code := run("warmup", []string{c.arg}, &stdout, &stderr, func(io.Writer) error { panic("it must not run") })
		require.Equal(t, c.code, code, c.arg)
		require.Equal(t, c.want, stderr.String())
		require.Empty(t, stdout.String())
	}
}

func TestRun_ToTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{errors.New("disk full"), 1, "warmup: disk full\n"},
	} {
		var stdout, stderr strings.Builder
		code := run("warmup", nil, &stdout, &stderr, func(out io.Writer) error {
			_, err := io.WriteString(out, "shown")
			return errors.Join(err, c.err)
		})
		require.Equal(t, c.code, code)
		require.Equal(t, c.want, stderr.String())
		require.Equal(t, "shown", stdout.String())
	}
}
