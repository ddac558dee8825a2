// Package memory knows how much memory the container, or else the process, uses.
//
//	sampler, err := memory.Start(memory.Config{})
//	…
//	defer sampler.Close()
//	used, known := sampler.Used()
//
// A [Sampler] reads the memory once per second, or however often it is told to,
// from 10 ms to 1 h, and keeps the last reading. [Sampler.Used] is one atomic load,
// so it may be asked at every call. Rules whose threshold adapts to memory do so.
// All figures are bytes.
//
// # What is read
//
// The first of these that is there, decided anew at every reading; [Sampler.Source] says
// which it is:
//
//   - cgroup v2: memory.current less inactive_file of memory.stat
//   - cgroup v1: memory.usage_in_bytes less total_inactive_file of memory.stat
//   - the process: its resident set, from /proc/self/statm
//   - the Go runtime, where there is no /proc: what it has mapped and not given back,
//     which is what GOMEMLIMIT bounds; not what C code or the program's text take
//
// Usage less the page cache that has not been used lately is the working set as
// kubelet has it: that cache is given up before anything is killed, and a program
// that reads files would seem full without being so. It counts all processes of
// the cgroup, their page tables and sockets too, but no swap. It is 0 if usage is
// less than that cache, for the two are not read at the same moment.
//
// The cgroup is that of /proc/self/cgroup, below the mounts /sys/fs/cgroup and
// /sys/fs/cgroup/memory. If it has no such file there, the root of the mount is
// looked at: inside a container, that is its own cgroup. The root of the whole
// machine does not count as one: it holds everybody's memory. What is not there, or
// may not be read, makes way for the next. Any other fault is the error of the
// reading, and nothing steps in: a container that all of a sudden seems as small as
// its process would be told to take more.
//
// A program that knows better brings an implementation of its own: Config.Memory of the gate is an interface.
//
// # Errors
//
// A reading that fails changes nothing at first: the last good one stays. When 5 × [Config].Every have gone by
// without a good one, the memory is unknown until the next. Each cause is logged once.
//
// [Start] starts a goroutine, and [Sampler.Close] ends it. Everything may be called
// by any number of goroutines at once.
//
// # Sources
//
//   - memory.current, memory.stat, /proc/self/cgroup and namespaces: Control Group v2,
//     https://docs.kernel.org/admin-guide/cgroup-v2.html
//   - memory.usage_in_bytes and memory.stat of v1: Memory Resource Controller,
//     https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
//   - the working set: setMemoryStats of cAdvisor, which kubelet evicts and reports
//     by, https://github.com/google/cadvisor/blob/master/container/libcontainer/handler.go
//   - statm: proc_pid_statm(5)
package memory

import (
	"errors"
	"log/slog"
	"sync/atomic" // its Int64 is aligned on 32-bit machines, too
	"time"

	"github.com/leapgate-go/leapgate/internal/sampler"
)

const (
	defaultEvery = time.Second
	minEvery     = 10 * time.Millisecond
	maxEvery     = time.Hour
)

// ErrConfig is wrapped by every error of [Start].
var ErrConfig = errors.New("leapgate: bad memory configuration")

// Config says how a sampler works. The zero Config is a good one.
type Config struct {
	// Every is the time from one reading to the next: 10 ms to 1 h; 0 is 1 s. A
	// reading takes less than a tenth of a millisecond.
	Every time.Duration

	// Logger gets why readings fail, once per cause, and of at most 100 causes. Nil
	// is slog.Default().
	Logger *slog.Logger
}

// Sampler keeps the last reading of the memory. Make one with [Start]. That of the
// zero Sampler is unknown.
type Sampler struct {
	// used is the complement of the last good reading, which is below 0, or 0 if the
	// memory is unknown. Written by the sampler alone, read by everybody.
	used    atomic.Int64
	system  *system // nil only in the zero Sampler
	sampler *sampler.Sampler[int64]
}

// Start begins to sample. It reads once before it returns, so that the memory is known at once unless that reading
// fails, which is no error. The error, if any, is [ErrConfig], and nothing was started.
func Start(cfg Config) (*Sampler, error) {
	s := &Sampler{system: newSystem()}
	var err error
	s.sampler, err = sampler.Start(sampler.Config[int64]{
		What: "memory", Every: cfg.Every, Min: minEvery, Max: maxEvery, Default: defaultEvery,
		Logger: cfg.Logger, BadConfig: ErrConfig,
		Read:   s.system.Read,
		Take:   func(bytes int64) { s.used.Store(^bytes) },
		Forget: func() { s.used.Store(0) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Used returns the last good reading, and reports whether there is one: known is false before
// the first, when 5 × Every have gone by without another, and after Close. It does
// not block, and allocates nothing.
func (s *Sampler) Used() (bytes int64, known bool) {
	complement := s.used.Load()
	if complement == 0 {
		return 0, false
	}
	return ^complement, true
}

// Source returns what the last good reading was of: "cgroup v2", "cgroup v1", "process", which
// is its resident set, or "Go runtime", which is what that has mapped. It is "" if there was
// none.
func (s *Sampler) Source() string {
	if s.system == nil {
		return ""
	}
	return s.system.Source()
}

// Close stops the sampler, and makes the memory unknown. It waits for a reading in progress. The error is always nil.
func (s *Sampler) Close() error {
	s.sampler.Close()
	return nil
}
