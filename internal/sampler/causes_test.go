package sampler_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/sampler"
)

// errorLog is a handler that keeps the errors as they come, without escaping them.
type errorLog struct {
	slog.Handler
	errors []string
}

func (*errorLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *errorLog) Handle(_ context.Context, r slog.Record) error { //nolint:gocritic // slog wants it so
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			h.errors = append(h.errors, a.Value.String())
		}
		return true
	})
	return nil
}

// A cgroup may be called anything, and its name is in the path of the file.
func TestCauses_NamesFromOutsideAreEscaped(t *testing.T) {
	t.Parallel()
	h := new(errorLog)
	causes := sampler.Causes{Logger: slog.New(h)}
	for _, text := range []string{"reading /sys/a: no", "reading /sys/\x1b[31m\u202e\n: no", "reading /sys/\xff: no", "reading /sys/a: no"} {
		causes.Log(slog.LevelWarn, "unread", errors.New(text))
	}
	require.Equal(t, []string{"reading /sys/a: no", `"reading /sys/\x1b[31m\u202e\n: no"`, `"reading /sys/\xff: no"`}, h.errors)
}
