package rulefile

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// folders listens to what lies on the way to a path: the folders in which something can happen
// that changes what the path holds. They are those of every symbolic link on the way, and that of
// the file, or the folder itself and the one that it is in. Files themselves are not
// listened to: most of what changes them puts another in their place.
//
// It belongs to the goroutine of a watcher.
type folders struct {
	path    string
	notices listener
	heard   interest
	failed  string // the last failure to listen, so that it is told once
}

// listener is the part of an fsnotify.Watcher that folders need.
type listener interface {
	Add(folder string) error
	Remove(folder string) error
	WatchList() []string
	Close() error
}

// interest is the folders that are listened to, and what in them matters.
type interest struct {
	folders map[string]bool // true: everything in it matters
	entries map[string]bool // in full
}

func newFolders(path string, notices listener) *folders {
	return &folders{path: path, notices: notices}
}

// concerns reports whether what happened to an entry of one of the folders matters.
func (f *folders) concerns(name string) bool {
	_, folder := f.heard.folders[name] // it was taken away, or renamed
	return folder || f.heard.entries[name] || f.heard.folders[filepath.Dir(name)]
}

// follow listens where the path leads now. It returns an error if that fails for another
// reason than last time.
func (f *folders) follow() error {
	const tries = 3 // while it changes; the next notice will bring us back
	var failure error
	for range tries {
		next := interestOf(f.path)
		failure = f.listen(next)
		same := maps.Equal(next.folders, f.heard.folders) && maps.Equal(next.entries, f.heard.entries)
		if f.heard = next; same {
			break
		}
	}
	if failure == nil || failure.Error() == f.failed {
		return nil
	}
	f.failed = failure.Error()
	return failure
}

func (f *folders) listen(next interest) error {
	var failure error
	for folder := range next.folders {
		// Also those that are listened to already: another may be in their place.
		if err := f.notices.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failure = err
		}
	}
	for _, folder := range f.notices.WatchList() {
		if _, wanted := next.folders[folder]; !wanted {
			// It may be gone already, which is as well.
			_ = f.notices.Remove(folder)
		}
	}
	return failure
}

func (f *folders) close() error { return f.notices.Close() }

// interestOf returns what matters to a path as it is now.
func interestOf(path string) interest {
	in := interest{map[string]bool{}, map[string]bool{}}
	folder, ok := in.walk(path)
	if !ok {
		return in
	}
	in.folders[folder] = true
	entries, err := os.ReadDir(folder)
	if err != nil {
		return in
	}
	links := 0
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 && isRuleFile(entry.Name()) && links < maxFiles {
			links++
			in.walk(filepath.Join(folder, entry.Name()))
		}
	}
	return in
}

// walk goes the way of a path and notes what matters. It reports whether the path ends in a
// folder, and in which.
func (in *interest) walk(path string) (folder string, isFolder bool) {
	const maxLinks = 40 // as in Linux
	path, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	root := func(path string) string { return filepath.VolumeName(path) + string(filepath.Separator) }
	split := func(path string) []string {
		return strings.Split(strings.TrimPrefix(path, filepath.VolumeName(path)), string(filepath.Separator))
	}
	at, rest, links := root(path), split(path), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case err != nil: // it will be heard of when it comes
			in.note(at, next)
			return "", false
		case info.Mode()&fs.ModeSymlink != 0:
			in.note(at, next)
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return "", false
			}
			if filepath.IsAbs(target) {
				at = root(target)
			}
			rest = append(split(target), rest...)
		case info.IsDir():
			if allEmpty(rest) {
				in.note(at, next)
			}
			at = next
		default:
			in.note(at, next)
			return "", false
		}
	}
	return at, true
}

func (in *interest) note(folder, entry string) {
	if _, noted := in.folders[folder]; !noted {
		in.folders[folder] = false
	}
	in.entries[entry] = true
}

func allEmpty(names []string) bool {
	for _, name := range names {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}
