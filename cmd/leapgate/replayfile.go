package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// outFile is a file that is written beside what has its name, and put in its place when it is whole.
type outFile struct {
	name string // with all links followed
	file *os.File
	temp string // what is to be there; empty if it is, or if there is nothing to replace
}

// createFile opens what becomes a file. What is there and no file, such as a pipe, is written as
// it is.
func createFile(name string) (o *outFile, err error) {
	if followed, err := filepath.EvalSymlinks(name); err == nil {
		name = followed
	}
	o = &outFile{name: name}
	mode := fs.FileMode(0o644)
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; want the name of a file", name)
	case !info.Mode().IsRegular():
		o.file, err = os.OpenFile(name, os.O_WRONLY, 0)
		return o, err
	default:
		mode = info.Mode().Perm()
	}
	if o.file, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*"); err != nil {
		return nil, err
	}
	o.temp = o.file.Name()
	if err = o.file.Chmod(mode); err != nil {
		o.drop()
		return nil, err
	}
	return o, nil
}

// finish writes the file, and puts it in its place.
func (o *outFile) finish(write func(io.Writer) error) error {
	err := write(o.file)
	if failed := o.file.Close(); err == nil {
		err = failed
	}
	if err == nil && o.temp != "" {
		err = os.Rename(o.temp, o.name)
	}
	if err == nil {
		o.temp = ""
	}
	return err
}

// drop removes what is not in its place.
func (o *outFile) drop() {
	_ = o.file.Close() // nothing of it is kept
	if o.temp != "" {
		_ = os.Remove(o.temp)
	}
}

// checkOutputs returns what is wrong with the names of what is written: it must not take the
// place of what is read, nor of each other.
func (r *replay) checkOutputs(args []string, stdin io.Reader) error {
	read := append([]string{r.rules, r.against}, args...)
	for _, folder := range read[:2] {
		entries, _ := os.ReadDir(folder) // of what is no folder there are none
		for _, entry := range entries {
			read = append(read, filepath.Join(folder, entry.Name()))
		}
	}
	var faults []error
	for _, out := range [...]struct{ flag, name string }{{"-html", r.html}, {"-json", r.json}} {
		info := regular(os.Stat(out.name))
		if info == nil {
			continue
		}
		for _, name := range read {
			if other := regular(os.Stat(name)); other != nil && os.SameFile(info, other) {
				faults = append(faults, fmt.Errorf("%s is %s, which is read as %s; want another file", out.flag, out.name, name))
				break
			}
		}
		if f, ok := stdin.(*os.File); ok {
			if other := regular(f.Stat()); other != nil && os.SameFile(info, other) {
				faults = append(faults, fmt.Errorf("%s is %s, which is standard input; want another file", out.flag, out.name))
			}
		}
	}
	if html, json := regular(os.Stat(r.html)), regular(os.Stat(r.json)); r.html != "" && r.html == r.json || html != nil && json != nil && os.SameFile(html, json) {
		faults = append(faults, fmt.Errorf("-html and -json are both %s; want one for each", r.html))
	}
	return errors.Join(faults...)
}

// regular returns what was found if it is a file, and no folder, pipe or the like.
func regular(info fs.FileInfo, err error) fs.FileInfo {
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}
