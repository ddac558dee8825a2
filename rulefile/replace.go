package rulefile

import (
	"os"
	"path/filepath"
	"runtime"
)

// replacement is a file that was written beside another, to be put in its place as a whole.
type replacement struct {
	name string // what is replaced, with all links followed
	temp string // what is to be there; empty if it is, or was dropped
}

// stage writes what a file is to hold beside it, down to the disk.
func stage(name string, data []byte) (r *replacement, err error) {
	name, err = filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	// Rule files of a folder do not begin with a dot: nobody takes this for one.
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return nil, err
	}
	if err = f.Chmod(info.Mode().Perm()); err != nil {
		return nil, err
	}
	if err = f.Sync(); err != nil { // or a crash may leave an empty file under the name
		return nil, err
	}
	if err = f.Close(); err != nil {
		return nil, err
	}
	return &replacement{name, f.Name()}, nil
}

// commit puts the file in its place.
func (r *replacement) commit() error {
	err := os.Rename(r.temp, r.name)
	if err == nil {
		r.temp = ""
	}
	return err
}

// syncFolder makes that last over a crash: the name is in the folder, which must reach the disk too.
func (r *replacement) syncFolder() error {
	if runtime.GOOS == "windows" {
		return nil // which syncs no folders
	}
	folder, err := os.Open(filepath.Dir(r.name))
	if err != nil {
		return err
	}
	err = folder.Sync()
	_ = folder.Close() // nothing was written through it
	return err
}

// drop removes what was written, if it is not in its place.
func (r *replacement) drop() {
	if r.temp != "" {
		_ = os.Remove(r.temp) // nobody reads it
	}
}
