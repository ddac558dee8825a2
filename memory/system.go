package memory

import (
	"fmt"
	"math"
	"os"
	"runtime/metrics"
	"strings"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

// What [Sampler.Source] can say.
const (
	cgroupV2  = cgroup.V2
	cgroupV1  = cgroup.V1
	process   = "process"    // its resident set
	goRuntime = "Go runtime" // what it has mapped
)

// controllers are the memory controllers of the two versions, in the order in which
// they are tried. A machine that mounts both has memory in one of them only.
var controllers = []struct {
	source       string
	controller   string // of version 1
	mount        string
	usage        string // the file with the memory used
	inactiveFile string // the key, in memory.stat, of the cache that counts as free
	machine      string // a file that only the cgroup of the whole machine has
}{
	// The root of version 2 has no memory.current.
	{source: cgroupV2, mount: cgroup.MountV2, usage: "memory.current", inactiveFile: "inactive_file"},
	{
		source: cgroupV1, controller: "memory", mount: cgroup.MountV2 + "/memory", usage: "memory.usage_in_bytes",
		inactiveFile: "total_inactive_file", machine: "release_agent",
	},
}

const statmFile = "proc/self/statm"

// system reads how much memory the container, or else the process, uses; the
// package's documentation says what that is.
type system struct {
	files  cgroup.Files
	source atomic.String
}

func newSystem() *system { return &system{files: cgroup.Machine()} }

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
	groups, err := s.files.Groups()
	if err != nil {
		return 0, "", err
	}
	for _, c := range controllers {
		group, ok := groups.Of(c.controller)
		if !ok {
			continue
		}
		// Not its ancestors: those that are visible need not be its own, and hold
		// the memory of strangers.
		for _, folder := range []string{c.mount + group, c.mount} {
			if c.machine != "" && s.files.Has(folder+"/"+c.machine) {
				continue
			}
			bytes, err := s.workingSet(folder, c.usage, c.inactiveFile)
			if !cgroup.Absent(err) {
				return bytes, c.source, err
			}
		}
	}
	if bytes, err = s.residentSet(); !cgroup.Absent(err) {
		return bytes, process, err
	}
	return runtimeBytes(), goRuntime, nil
}

// workingSet is the memory used by the cgroup of a folder, less the cache that has
// not been used lately.
func (s *system) workingSet(folder, usageFile, inactiveKey string) (int64, error) {
	// Not path.Join, which would make something else of a path with dots.
	name := folder + "/" + usageFile
	text, err := s.files.Read(name)
	if err != nil {
		return 0, err
	}
	usage, err := cgroup.Number(name, strings.TrimSuffix(text, "\n"))
	if err != nil {
		return 0, err
	}
	// Kernels have memory.stat beside it. What imitates them may not: then all of it
	// counts, as it does for kubelet.
	name = folder + "/memory.stat"
	text, err = s.files.Read(name)
	if err != nil && !cgroup.Absent(err) {
		return 0, err
	}
	value, ok := cgroup.Value(text, inactiveKey)
	if !ok {
		return usage, nil
	}
	inactive, err := cgroup.Number(name, value)
	if err != nil {
		return 0, err
	}
	return max(0, usage-inactive), nil
}

// residentSet is the memory that the process has in RAM.
func (s *system) residentSet() (int64, error) {
	text, err := s.files.Read(statmFile)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text) // in pages: size, resident, shared, …
	if len(fields) < 2 {
		return 0, fmt.Errorf("/%s is %.40q; want at least two numbers", statmFile, text)
	}
	pages, err := cgroup.Number(statmFile, fields[1])
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
