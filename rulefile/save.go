package rulefile

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// ErrChanged is the error of [Watcher.Save] if the path does not hold what is active: it was
// changed and not loaded yet, or is no good. What others wrote is not overwritten.
var ErrChanged error = conflict("leapgate: the rule file is not the one that is active")

// conflict is an error of two who have written the same.
type conflict string

func (c conflict) Error() string { return string(c) }

// Conflict is how those see it who do not import this package.
func (conflict) Conflict() bool { return true }

// Save writes rules into the watched file, and loads them into the gate: they are what is
// active when it returns. It asks for them when nothing is loaded from the file until then, so
// they may be made from what the gate has of it. An error of theirs is that of Save.
//
// The gate is asked before anything is changed: rules that it refuses are never in the file. The
// file is written beside its place and renamed over it, so that nobody ever reads half of
// it; if the path is a symbolic link, what it leads to is replaced. The file keeps its
// permissions, and belongs to the user who runs the program.
//
// A name that ends in .json gets JSON, another YAML. Of YAML, what does not change stays as it was
// written: the comments, the order, and defaults that are not said. A rule that is removed goes
// with its comments; indentation is made even, and blank lines may go. Where comments stand
// so that they cannot be kept, Status.LosesComments says so before.
//
// A folder can be saved if it has one rule file. With rules that are no good the error is
// [Errors], with a file that others have changed meanwhile [ErrChanged], after Close
// [ErrClosed]; otherwise it is what the system or the gate says. With an error nothing is
// changed.
func (w *Watcher) Save(rules func() (leapgate.Rules, error)) error {
	return w.locked(func() error {
		if w.closed {
			return ErrClosed
		}
		return w.save(rules)
	})
}

func (w *Watcher) save(rules func() (leapgate.Rules, error)) error {
	c, err := w.unchanged()
	if err != nil {
		return err
	}
	if len(c.files) != 1 {
		return fmt.Errorf("leapgate: the rules of %s are in %d files; want one to save them in", escape.Text(w.cfg.Path), len(c.files))
	}
	name := c.files[0].name
	next, err := rules()
	if err != nil {
		return err
	}
	data, lost, err := rewrite(next, name, c.files[0].data)
	if err != nil {
		return err
	}
	c = contentOf([]file{{name, data}})
	p := c.parse()
	next, err = p.finish() // what the file says, as if it were loaded
	if err != nil {
		return err
	}
	own(&next, w.cfg.Path)
	written, err := stage(name, data)
	if err != nil {
		return err
	}
	defer written.drop()
	if _, err := w.unchanged(); err != nil { // writing takes its time
		return err
	}
	if err := w.give(next, p); err != nil {
		return err
	}
	if err := written.commit(); err != nil {
		return errors.Join(err, w.give(w.rules, newParser())) // which it had
	}
	if err := written.syncFolder(); err != nil {
		w.log(slog.LevelWarn, "leapgate: after a crash, the rule file may be as it was before it was saved", slog.String("error", escape.Text(err.Error())))
	}
	if lost {
		w.log(slog.LevelWarn, "leapgate: comments of the rule file could not be kept when it was saved")
	}
	w.seen, w.still, w.moving = keyOf(c, nil), time.Time{}, time.Time{}
	w.accepted(c, next)
	return nil
}

// unchanged returns what the path holds, if that is what is active.
func (w *Watcher) unchanged() (*content, error) {
	c, err := readFiles(w.cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if !w.loaded || keyOf(c, nil) != w.active {
		return nil, fmt.Errorf("%w: %s was changed, and is not loaded yet or no good", ErrChanged, escape.Text(w.cfg.Path))
	}
	return c, nil
}
