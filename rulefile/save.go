package rulefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// ErrChanged is the error of [Watcher.Save] if the path does not hold what is active: it was
// changed and not loaded yet, or is no good. What others wrote is not overwritten.
var ErrChanged = errors.New("leapgate: the rule file is not the one that is active")

// Save writes rules into the watched file, and loads them into the gate: they are what is
// active when it returns. It asks for them when nothing is loaded from the file until then, so
// they may be made from what the gate has of it. An error of theirs is that of Save.
//
// The file is written beside its place and renamed over it, so that
// nobody ever reads half of it; if the path is a symbolic link, what it leads to is replaced. A
// name that ends in .json gets JSON, another YAML. Comments, and how it was written, are lost.
// The file keeps its permissions, and belongs to the one who runs the program.
//
// A folder can be saved if it has one rule file. With rules that are no good the error is
// [Errors], with a file that others have changed meanwhile [ErrChanged], after Close
// [ErrClosed]; otherwise it is what the system or the gate says. With an error nothing is
// changed.
func (w *Watcher) Save(rules func() (Rules, error)) error {
	w.loading.Lock()
	defer w.loading.Unlock()
	if w.closed {
		return ErrClosed
	}
	c, err := gather(w.cfg.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if !w.loaded || keyOf(c, nil) != w.active {
		return fmt.Errorf("%w: %s was changed, and is not loaded yet or no good", ErrChanged, escape.Text(w.cfg.Path))
	}
	if len(c.files) != 1 {
		return fmt.Errorf("leapgate: the rules of %s are in %d files; want one to save them in", escape.Text(w.cfg.Path), len(c.files))
	}
	name, before := c.files[0].name, c.files[0].data
	next, err := rules()
	if err != nil {
		return err
	}
	data, err := next.encode(name)
	if err != nil {
		return err
	}
	if _, err := Parse(name, data); err != nil {
		return err
	}
	if err := replaceFile(name, data); err != nil {
		return err
	}
	c, err = gather(w.cfg.Path)
	if err = w.load(c, err); err != nil {
		return errors.Join(err, replaceFile(name, before))
	}
	return nil
}

// encode writes the rules as a file of that name holds them.
func (r Rules) encode(name string) ([]byte, error) {
	if strings.EqualFold(filepath.Ext(name), ".json") {
		return r.JSON()
	}
	return r.YAML()
}

// replaceFile puts data into a file at once.
func replaceFile(name string, data []byte) (err error) {
	name, err = filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	// Rule files of a folder do not begin with a dot: nobody takes this for one.
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err = f.Sync(); err != nil { // or a crash may leave an empty file under the name
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
