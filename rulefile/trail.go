package rulefile

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// trail is what lies on the way to a path: the folders in which something can happen that
// changes what the path holds. They are those of every symbolic link on the way, and that of
// the file, or the folder itself and the one that it is in. Files themselves are not
// listened to: most of what changes them puts another in their place.
//
// It belongs to the goroutine of a watcher.
type trail struct {
	path    string
	notices listener
	at      steps
	failed  string // the last failure to listen, so that it is told once
}

// listener is the part of an fsnotify.Watcher that a trail needs.
type listener interface {
	Add(folder string) error
	Remove(folder string) error
	WatchList() []string
	Close() error
}

// steps are the folders that are listened to, and what in them matters.
type steps struct {
	folders map[string]bool // true: everything in it matters
	entries map[string]bool // in full
}

func newTrail(path string, notices listener) *trail {
	return &trail{path: path, notices: notices}
}

// concerns tells whether what happened to an entry of one of the folders matters.
func (t *trail) concerns(name string) bool {
	_, folder := t.at.folders[name] // it was taken away, or renamed
	return folder || t.at.entries[name] || t.at.folders[filepath.Dir(name)]
}

// follow listens where the path leads now. It gives an error if that fails for another
// reason than last time.
func (t *trail) follow() error {
	const tries = 3 // while it changes; the next notice will bring us back
	var failure error
	for range tries {
		next := stepsOf(t.path)
		failure = t.listen(next)
		same := maps.Equal(next.folders, t.at.folders) && maps.Equal(next.entries, t.at.entries)
		if t.at = next; same {
			break
		}
	}
	if failure == nil || failure.Error() == t.failed {
		return nil
	}
	t.failed = failure.Error()
	return failure
}

func (t *trail) listen(next steps) error {
	var failure error
	for folder := range next.folders {
		// Also those that are listened to already: another may be in their place.
		if err := t.notices.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failure = err
		}
	}
	for _, folder := range t.notices.WatchList() {
		if _, wanted := next.folders[folder]; !wanted {
			// It may be gone already, which is as well.
			_ = t.notices.Remove(folder)
		}
	}
	return failure
}

func (t *trail) close() error { return t.notices.Close() }

// stepsOf gives the trail of a path as it is now.
func stepsOf(path string) steps {
	s := steps{map[string]bool{}, map[string]bool{}}
	folder, ok := s.walk(path)
	if !ok {
		return s
	}
	s.folders[folder] = true
	entries, err := os.ReadDir(folder)
	if err != nil {
		return s
	}
	links := 0
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 && isRuleFile(entry.Name()) && links < MaxFiles {
			links++
			s.walk(filepath.Join(folder, entry.Name()))
		}
	}
	return s
}

// walk goes the way of a path and notes what matters. It tells whether the path ends in a
// folder, and in which.
func (s *steps) walk(path string) (folder string, isFolder bool) {
	const mostLinks = 40 // as in Linux
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
			s.note(at, next)
			return "", false
		case info.Mode()&fs.ModeSymlink != 0:
			s.note(at, next)
			target, err := os.Readlink(next)
			if links++; err != nil || links > mostLinks {
				return "", false
			}
			if filepath.IsAbs(target) {
				at = root(target)
			}
			rest = append(split(target), rest...)
		case info.IsDir():
			if allEmpty(rest) {
				s.note(at, next)
			}
			at = next
		default:
			s.note(at, next)
			return "", false
		}
	}
	return at, true
}

func (s *steps) note(folder, entry string) {
	if _, noted := s.folders[folder]; !noted {
		s.folders[folder] = false
	}
	s.entries[entry] = true
}

func allEmpty(names []string) bool {
	for _, name := range names {
		if name != "" && name != "." {
			return false
		}
	}
	return true
}
