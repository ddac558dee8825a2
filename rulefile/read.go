package rulefile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// Limits of what is read, besides those of a document.
const (
	maxFolderSize = 4 * document.MaxSize // bytes in a folder
	maxFiles      = 1000                 // files in a folder
)

// Read reads the rules of a file, or of all files in a folder whose names end in .yaml,
// .yml or .json, in the order of their names. Names that begin with a dot are not looked
// at, nor are folders in the folder. IDs must be unique over all of them. A folder without
// a rule file is an error, since one that is not mounted looks like that.
//
// The error, if any, is [Errors], as with [Parse].
func Read(path string) (leapgate.Rules, error) {
	f, err := ReadFile(path)
	return f.Rules, err
}

// content is what the files of a path hold at one time.
type content struct {
	files []file
	sum   [sha256.Size]byte // of all of it, names included
}

// contentOf returns the content of files.
func contentOf(files []file) *content {
	c := &content{files: files}
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%q %d\n", f.name, len(f.data))
		hash.Write(f.data)
	}
	hash.Sum(c.sum[:0])
	return c
}

type file struct {
	name string
	data []byte
}

// parse reads all files, for a program if that is known. They are not validated yet.
func (c *content) parse(of *program) *parser {
	p := newParser()
	p.program = of
	for _, f := range c.files {
		p.add(f.name, f.data)
	}
	return p
}

func (c *content) names() []string {
	names := make([]string, len(c.files))
	for i, f := range c.files {
		names[i] = f.name
	}
	return names
}

// readFiles reads the files of a path. The error is Errors.
func readFiles(path string) (*content, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, Errors{readError(path, err)}
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = ruleFiles(path); err != nil {
			return nil, err
		}
	}
	var files []file
	var errs Errors
	size := 0
	for _, name := range names {
		data, err := readFile(name)
		if err != nil {
			errs = append(errs, readError(name, err))
			continue
		}
		if size += len(data); info.IsDir() && size > maxFolderSize {
			errs = append(errs, &Error{File: path, Message: fmt.Sprintf("the files of the folder are larger than %d MiB together", maxFolderSize>>20)})
			break
		}
		files = append(files, file{name, data})
	}
	if len(errs) > 0 {
		return nil, errs.orNil(0)
	}
	return contentOf(files), nil
}

// ruleFiles returns the rule files of a folder, in the order of their names.
func ruleFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, Errors{readError(folder, err)}
	}
	var names []string
	for _, entry := range entries {
		if !isRuleFile(entry.Name()) {
			continue
		}
		name := filepath.Join(folder, entry.Name())
		if entry.Type()&fs.ModeSymlink != 0 { // in a ConfigMap, all are
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				continue
			}
		} else if entry.IsDir() {
			continue
		}
		names = append(names, name)
	}
	switch {
	case len(names) == 0:
		return nil, Errors{&Error{File: folder, Message: "no rule file in this folder; want at least one *.yaml, *.yml or *.json"}}
	case len(names) > maxFiles:
		return nil, Errors{&Error{File: folder, Message: fmt.Sprintf("%d rule files in this folder; want at most %d", len(names), maxFiles)}}
	default:
		return names, nil
	}
}

// isRuleFile reports whether a file of that name in a folder is read. The dot keeps away the
// ..data of ConfigMaps, and what editors leave about.
func isRuleFile(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

var errNotRegular = errors.New("it is not a regular file")

// readFile reads a regular file, up to one byte more than the largest size. Opening a pipe does not wait for a writer.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errNotRegular)
	}
	return io.ReadAll(io.LimitReader(f, document.MaxSize+1))
}

func readError(name string, err error) *Error {
	cause := err
	var path *fs.PathError
	if errors.As(err, &path) {
		cause = path.Err // it is said already which file
	}
	message := "cannot be read: " + escape.Text(cause.Error())
	if errors.Is(err, fs.ErrNotExist) {
		message = "there is no such file or folder"
	}
	return &Error{File: name, Message: message, Err: err}
}
