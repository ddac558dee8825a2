// Package cgroup finds the control group of this process, of version 1 and 2, and reads its
// files. What a file means stands in the packages that read it.
//
// The cgroup is that of /proc/self/cgroup, below the usual mounts. If it is not there, the root
// of the mount is looked at: inside a container, that is its own cgroup.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// The versions of cgroups, as people are told.
const (
	V2 = "cgroup v2"
	V1 = "cgroup v1"
)

const (
	groupsFile = "proc/self/cgroup"

	// MountV2 is where version 2 is mounted. Each controller of version 1 has a folder below it.
	MountV2 = "sys/fs/cgroup"

	// maxFile is more than any of the files has: /proc/self/cgroup can come to 60 KB.
	maxFile = 1 << 20
)

// Files are those of a machine, by names without the first slash. A nil Root has none.
type Files struct {
	Root fs.FS
}

// Machine returns the files of this machine, if it has cgroups.
func Machine() Files {
	if runtime.GOOS != "linux" {
		return Files{}
	}
	return Files{os.DirFS("/")}
}

// Read returns what is in a file. The error names it.
func (f Files) Read(name string) (string, error) {
	if f.Root == nil {
		return "", fmt.Errorf("reading /%s: %w", name, fs.ErrNotExist)
	}
	file, err := f.Root.Open(name)
	if err == nil {
		defer func() { _ = file.Close() }() // it was only read
		var content []byte
		if content, err = io.ReadAll(io.LimitReader(file, maxFile+1)); err == nil {
			if len(content) > maxFile {
				return "", fmt.Errorf("/%s has more than %d bytes; want less", name, maxFile)
			}
			return string(content), nil
		}
	}
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		err = pathError.Err // its path may lack the slash
	}
	return "", fmt.Errorf("reading /%s: %w", name, err)
}

// Has reports whether there is such a file or folder.
func (f Files) Has(name string) bool {
	if f.Root == nil {
		return false
	}
	_, err := fs.Stat(f.Root, name)
	return err == nil
}

// Groups returns the cgroups of this process; none if the machine does not tell.
func (f Files) Groups() (Groups, error) {
	text, err := f.Read(groupsFile)
	if Absent(err) {
		err = nil
	}
	return Groups(text), err
}

// Groups is what /proc/self/cgroup says.
type Groups string

// Of returns the path of the cgroup that has a controller in version 1, or, if that is empty,
// of the one in version 2. It begins with a slash, unless it is that of the root, which is
// empty.
func (g Groups) Of(controller string) (path string, ok bool) {
	for line := range strings.Lines(string(g)) {
		// hierarchy:controllers:path, 0::path for version 2. A path may have colons.
		hierarchy, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(path, "/") {
			continue
		}
		isV2 := hierarchy == "0" && controllers == ""
		if controller == "" && isV2 || controller != "" && slices.Contains(strings.Split(controllers, ","), controller) {
			return strings.TrimSuffix(path, "/"), true
		}
	}
	return "", false
}

// Absent reports whether a file is not there for this process. A path that cannot be,
// such as that of a cgroup outside of the namespace, /../other, is not there either.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid)
}

// Value returns what a file of lines of a key and a value has for a key.
func Value(text, key string) (value string, ok bool) {
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); k == key {
			return v, true
		}
	}
	return "", false
}

// Number reads a whole number of 0 or more that a file has.
func Number(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("/%s has %.40q; want a number of 0 to %d", name, text, int64(math.MaxInt64))
	}
	return int64(n), nil
}
