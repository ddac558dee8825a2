package rulefile

import "time"

// Files returns the names of the files that the active rules were read from, as in the
// [Status].
func (w *Watcher) Files() []string { return w.Status().Files }

// FailingSince returns since when the path has not held what is active, zero if it does:
// ErrSince of the [Status].
func (w *Watcher) FailingSince() time.Time { return w.Status().ErrSince }

// LosesComments reports whether the file has comments that [Watcher.Save] could not keep, as
// in the [Status].
func (w *Watcher) LosesComments() bool { return w.Status().LosesComments }

// Parts returns the fields of the error, for packages that do not import this one.
func (e *Error) Parts() (file string, line, column int, field, message string) {
	return e.File, e.Line, e.Column, e.Field, e.Message
}
