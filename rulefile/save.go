package rulefile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// ErrChanged is the error of [Watcher.Save] if the path does not hold what is active: it was
// changed and not loaded yet, or is no good. What others wrote is not overwritten.
var ErrChanged error = conflict("leapgate: the rule file is not the one that is active")

// conflict is an error of two writers of the same file.
type conflict string

func (c conflict) Error() string { return string(c) }

// Conflict is for packages that do not import this one.
func (conflict) Conflict() bool { return true }

// Save writes rules into the watched file, and loads them into the gate: they are what is
// active when it returns. They may be made from what the gate has of the file: if it is loaded
// while they are made, the error is [ErrChanged]. An error of theirs is that of Save. The function
// may call the watcher, but not Save, which waits for other calls of Save to end.
//
// The gate is asked before anything is changed: rules that it refuses are never in the file. The
// file is written beside its place and renamed over it, so that nobody ever reads half of
// it; if the path is a symbolic link, what it leads to is replaced. The file keeps its
// permissions, and belongs to the user who runs the program. After a power failure, the file may be the one before.
//
// A name that ends in .json gets JSON, another YAML. Of YAML, what does not change stays as it was
// written: the comments, the order, and defaults that are not said. A rule that is removed goes
// with its comments; indentation is made even, and blank lines may go. The limits stay as they
// are. Where comments stand
// so that they cannot be kept, Status.LosesComments says so before.
//
// A folder can be saved if it has one rule file. With rules that are no good the error is
// [Errors], with a file that others have changed meanwhile [ErrChanged], after Close
// [ErrClosed]; otherwise it is what the system or the gate says. With an error nothing is
// changed.
func (w *Watcher) Save(rules func() (leapgate.Rules, error)) error {
	w.saving.Lock()
	defer w.saving.Unlock()
	var loads int64
	err := w.locked(func() error {
		loads = w.status.Loads
		_, err := w.saveable()
		return err
	})
	if err != nil {
		return err
	}
	next, err := rules() // without the lock of loads, which the watcher's methods take
	if err != nil {
		return err
	}
	return w.locked(func() error {
		if loads != w.status.Loads {
			return fmt.Errorf("%w: %s was loaded while the rules to save were made", ErrChanged, escape.Text(w.cfg.Path))
		}
		return w.save(next)
	})
}

// saveable returns the one file that the path holds, if that is what is active.
func (w *Watcher) saveable() (file, error) {
	c, err := w.unchanged()
	if err == nil && len(c.files) != 1 {
		err = fmt.Errorf("leapgate: the rules of %s are in %d files; want one to save them in", escape.Text(w.cfg.Path), len(c.files))
	}
	if err != nil {
		return file{}, err
	}
	return c.files[0], nil
}

func (w *Watcher) save(next leapgate.Rules) error {
	old, err := w.saveable()
	if err != nil {
		return err
	}
	name := old.name
	data, lost, err := rewrite(next, name, old.data)
	if err != nil {
		return err
	}
	c := contentOf([]file{{name, data}})
	p := c.parse(w.program)
	f, err := p.finish() // what the file says, as if it were loaded
	if err != nil {
		return err
	}
	own(&f.Rules, w.cfg.Path)
	temp, target, err := stage(name, data)
	if err != nil {
		return err
	}
	defer os.Remove(temp)                    //nolint:errcheck // it is gone once it is renamed
	if _, err := w.unchanged(); err != nil { // writing takes its time
		return err
	}
	if err := w.give(f, p); err != nil {
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return errors.Join(err, w.give(w.file, newParser())) // the gate had these rules
	}
	if lost || w.status.LosesComments {
		w.log(slog.LevelWarn, "leapgate: comments of the rule file could not be kept when it was saved")
	}
	w.seen, w.changed = keyOf(c, nil), 0
	w.accepted(c, f)
	return nil
}

// unchanged returns what the path holds, if that is what is active.
func (w *Watcher) unchanged() (*content, error) {
	c, err := w.read()
	if errors.Is(err, ErrClosed) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if !w.loaded || keyOf(c, nil) != w.active {
		return nil, fmt.Errorf("%w: %s was changed, and is not loaded yet or no good", ErrChanged, escape.Text(w.cfg.Path))
	}
	return c, nil
}
