// Package tracing has the mark of checks that are no rules: they see entries, for tests, and
// figures do not show them.
package tracing

// Mark is embedded by such a check.
type Mark struct{}

// Traces does nothing.
func (Mark) Traces() {}

// Tracer is a check that has the mark.
type Tracer interface{ Traces() }
