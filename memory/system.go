package memory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/atomic"
)

// What [Sampler.Source] can say.
const (
	cgroupV2  = "cgroup v2"
	cgroupV1  = "cgroup v1"
	process   = "process"    // its resident set
	goRuntime = "Go runtime" // what it has mapped
)

// controllers are the memory controllers of the two versions, in the order in which
// they are tried. A machine that mounts both has memory in one of them only.
var controllers = []struct {
	source       string
	mount        string
	usage        string // the file with the memory used
	inactiveFile string // the key, in memory.stat, of the cache that counts as free
	machine      string // a file that only the cgroup of the whole machine has
}{
	// The root of version 2 has no memory.current.
	{source: cgroupV2, mount: "sys/fs/cgroup", usage: "memory.current", inactiveFile: "inactive_file"},
	{
		source: cgroupV1, mount: "sys/fs/cgroup/memory", usage: "memory.usage_in_bytes",
		inactiveFile: "total_inactive_file", machine: "release_agent",
	},
}

const (
	groupsFile = "proc/self/cgroup"
	statmFile  = "proc/self/statm"

	// maxFile is more than any of the files has: /proc/self/cgroup can come to 60 KB.
	maxFile = 1 << 20
)

// system reads how much memory the container, or else the process, uses; the
// package's documentation says what that is.
type system struct {
	root   fs.FS // nil: there is no /proc
	source atomic.String
}

func newSystem() *system {
	if runtime.GOOS != "linux" {
		return &system{}
	}
	return &system{root: os.DirFS("/")}
}

// Read reads the memory now, in bytes. The error names the file.
func (s *system) Read() (bytes int64, err error) {
	bytes, source, err := s.read()
	if err != nil {
		return 0, err
	}
	s.source.Store(source)
	return bytes, nil
}

// Source returns what the last good Read has read; "" if there was none.
func (s *system) Source() string { return s.source.Load() }

func (s *system) read() (bytes int64, source string, err error) {
	if s.root == nil {
		return runtimeBytes(), goRuntime, nil
	}
	groups, err := s.file(groupsFile)
	if err != nil && !absent(err) {
		return 0, "", err
	}
	for _, c := range controllers {
		group, ok := groupOf(groups, c.source)
		if !ok {
			continue
		}
		// Not its ancestors: those that are visible need not be its own, and hold
		// the memory of strangers.
		for _, folder := range []string{c.mount + group, c.mount} {
			if c.machine != "" && s.has(folder+"/"+c.machine) {
				continue
			}
			bytes, err := s.workingSet(folder, c.usage, c.inactiveFile)
			if !absent(err) {
				return bytes, c.source, err
			}
		}
	}
	if bytes, err = s.residentSet(); !absent(err) {
		return bytes, process, err
	}
	return runtimeBytes(), goRuntime, nil
}

// groupOf finds, in /proc/self/cgroup, the path of the cgroup that counts the memory
// in that version of cgroups.
func groupOf(groups, source string) (group string, ok bool) {
	for line := range strings.Lines(groups) {
		// hierarchy:controllers:path, 0::path for version 2. A path may have colons.
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			continue
		}
		isV2 := fields[0] == "0" && fields[1] == ""
		isV1 := slices.Contains(strings.Split(fields[1], ","), "memory")
		if source == cgroupV2 && isV2 || source == cgroupV1 && isV1 {
			return strings.TrimSuffix(fields[2], "/"), true
		}
	}
	return "", false
}

// workingSet is the memory used by the cgroup of a folder, less the cache that has
// not been used lately.
func (s *system) workingSet(folder, usageFile, inactiveKey string) (int64, error) {
	// Not path.Join, which would make something else of a path with dots.
	name := folder + "/" + usageFile
	text, err := s.file(name)
	if err != nil {
		return 0, err
	}
	usage, err := number(name, strings.TrimSuffix(text, "\n"))
	if err != nil {
		return 0, err
	}
	// Kernels have memory.stat beside it. What imitates them may not: then all of it
	// counts, as it does for kubelet.
	name = folder + "/memory.stat"
	text, err = s.file(name)
	if err != nil && !absent(err) {
		return 0, err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if key != inactiveKey {
			continue
		}
		inactive, err := number(name, value)
		if err != nil {
			return 0, err
		}
		return max(0, usage-inactive), nil
	}
	return usage, nil
}

// residentSet is the memory that the process has in RAM.
func (s *system) residentSet() (int64, error) {
	text, err := s.file(statmFile)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text) // in pages: size, resident, shared, …
	if len(fields) < 2 {
		return 0, fmt.Errorf("/%s is %.40q; want at least two numbers", statmFile, text)
	}
	pages, err := number(statmFile, fields[1])
	if err != nil {
		return 0, err
	}
	size := int64(os.Getpagesize())
	if pages > math.MaxInt64/size {
		return 0, fmt.Errorf("/%s has %d pages; want at most %d", statmFile, pages, math.MaxInt64/size)
	}
	return pages * size, nil
}

// runtimeBytes is the memory that the Go runtime has mapped and not given back.
func runtimeBytes() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// number reads a whole number that a file holds.
func number(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("/%s has %.40q; want a number of 0 to %d", name, text, int64(math.MaxInt64))
	}
	return int64(n), nil
}

// file returns what is in a file.
func (s *system) file(name string) (string, error) {
	f, err := s.root.Open(name)
	if err == nil {
		defer func() { _ = f.Close() }() // it was only read
		var content []byte
		if content, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil {
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

func (s *system) has(name string) bool {
	_, err := fs.Stat(s.root, name)
	return err == nil
}

// absent reports whether a file is not there for this process. A path that cannot be,
// such as that of a cgroup outside of the namespace, /../other, is not there either.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid)
}
