package sampler

import (
	"context"
	"fmt"
	"log/slog"
)

// maxCauses bounds the memory of a reading whose errors differ every time.
const maxCauses = 100

// Causes logs each cause of a fault once, and at most 100 of them. It is not safe for
// concurrent use.
type Causes struct {
	Logger *slog.Logger // nil is slog.Default()
	logged map[string]bool
}

// Log logs a message with an error, and what else there is to say, if it has not logged that
// error.
func (c *Causes) Log(level slog.Level, message string, err error, attributes ...any) {
	text := fmt.Sprint(err) // not err.Error(), which may panic
	cause := fmt.Sprintf("%.200s", text)
	if c.logged[cause] || len(c.logged) >= maxCauses {
		return
	}
	if c.logged == nil {
		c.logged = make(map[string]bool)
	}
	c.logged[cause] = true
	logger := c.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Log(context.Background(), level, message, append([]any{"error", text}, attributes...)...)
}
