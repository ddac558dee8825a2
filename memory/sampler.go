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
// A program that knows better sets a Config.Reader of its own.
//
// # Errors
//
// A reading that fails or panics changes nothing at first: the last good one stays.
// When 5 × [Config].Every have gone by without a good one, the memory is unknown
// until the next. Each cause is logged once. A reading that hangs hinders nobody: no
// other begins, and after 5 × Every the memory is unknown.
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
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic" // its Int64 is aligned on 32-bit machines, too
	"time"
)

const (
	defaultEvery = time.Second
	minEvery     = 10 * time.Millisecond
	maxEvery     = time.Hour

	// staleAfter times Every is how long a good reading is good for. One or two
	// failures do not make a rule change its threshold to and fro.
	staleAfter = 5

	// patience is how long Start and Close wait for a reading. One takes less than a
	// tenth of a millisecond, so that what takes this long does not come soon.
	patience = time.Second

	// maxCauses bounds the memory of a reader whose errors differ every time.
	maxCauses = 100
)

var (
	// ErrConfig is what every error of [Start] is.
	ErrConfig = errors.New("leapgate: bad memory configuration")
	// ErrHangs is the error of [Sampler.Close] when a reading has not come back.
	ErrHangs = errors.New("leapgate: a reading of the memory hangs")
)

// Config says how a sampler works. The zero Config is a good one.
type Config struct {
	// Every is the time from one reading to the next: 10 ms to 1 h; 0 is 1 s. A
	// reading takes less than a tenth of a millisecond.
	Every time.Duration

	// Reader returns how many bytes of memory are in use, 0 or more. Nil reads those of the
	// container or the process, as the documentation of the package says. It may fail, panic
	// and hang. It is not called again before it has returned.
	Reader func() (bytes int64, err error)

	// Logger gets why readings fail, once per cause, and of at most 100 causes. Nil
	// is slog.Default().
	Logger *slog.Logger
}

// Sampler keeps the last reading of the memory. Make one with [Start]. That of the
// zero Sampler is unknown.
type Sampler struct {
	// used is the complement of the last good reading, which is below 0, or 0 if the
	// memory is unknown. Written by Start and then by run alone, read by everybody.
	used atomic.Int64

	every  time.Duration
	reader func() (bytes int64, err error)
	system *system // whose Read reader is; nil if the program has brought its own
	logger *slog.Logger
	causes map[string]bool // what was logged; only a reading touches it, and there is one at a time

	closing sync.Once
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed by run, which ends
	last    *reading      // the one that began last; run's until stopped
}

// reading is one call of the reader.
type reading struct {
	done  chan struct{} // closed when what is below is there
	bytes int64
	err   error
}

// Start begins to sample. It reads once before it returns, so that the memory is
// known at once, unless that reading fails, or takes longer than 1 s; neither is an
// error. The error, if any, is [ErrConfig], and nothing was started.
func Start(cfg Config) (*Sampler, error) {
	if cfg.Every == 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Every < minEvery || cfg.Every > maxEvery { // the only field that can be wrong
		return nil, fmt.Errorf("%w: Every is %v; want %v to %v, or 0 for %v",
			ErrConfig, cfg.Every, minEvery, maxEvery, defaultEvery)
	}
	var machine *system
	if cfg.Reader == nil {
		machine = newSystem()
		cfg.Reader = machine.Read
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Sampler{
		every:   cfg.Every,
		reader:  cfg.Reader,
		system:  machine,
		logger:  cfg.Logger,
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.begin()
	if s.last.wait(patience) {
		s.take()
		go s.run(nil)
	} else {
		go s.run(s.last.done)
	}
	return s, nil
}

// Used returns the last good reading, and reports whether there is one: known is false before
// the first, when 5 × Every have gone by without another, and after Close. It does
// not block, whatever the reader does, and allocates nothing.
func (s *Sampler) Used() (bytes int64, known bool) {
	complement := s.used.Load()
	if complement == 0 {
		return 0, false
	}
	return ^complement, true
}

// Source returns what the last good reading was of: "cgroup v2", "cgroup v1", "process", which
// is its resident set, or "Go runtime", which is what that has mapped. It is "" if there was
// none, or the reader is the program's own.
func (s *Sampler) Source() string {
	if s.system == nil {
		return ""
	}
	return s.system.Source()
}

// Close ends the sampler: from now on the memory is unknown, and when Close returns
// its goroutines are gone. If a reading hangs for another second, the error is
// [ErrHangs]: its goroutine cannot be stopped, and ends when the reader returns.
// Closing again does nothing but to look whether it has.
func (s *Sampler) Close() error {
	s.closing.Do(func() { close(s.stop) })
	<-s.stopped // soon: run calls nothing that could block
	if !s.last.wait(patience) {
		return fmt.Errorf("%w: the reader has not returned %v after Close; want it to", ErrHangs, patience)
	}
	return nil
}

// run samples until it is stopped. pending is the end of the reading that is under
// way, nil if there is none.
func (s *Sampler) run(pending <-chan struct{}) {
	defer close(s.stopped)
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	stale := time.NewTimer(staleAfter * s.every)
	defer stale.Stop()
	for {
		select {
		case <-s.stop:
			s.used.Store(0)
			return
		case <-ticker.C:
			if pending == nil {
				s.begin()
				pending = s.last.done
			}
		case <-pending:
			pending = nil
			if s.take() {
				stale.Reset(staleAfter * s.every)
			}
		case <-stale.C:
			s.used.Store(0)
		}
	}
}

// begin begins a reading, on a goroutine of its own because it may hang.
func (s *Sampler) begin() {
	s.last = &reading{done: make(chan struct{})}
	go s.read(s.last)
}

// take makes the last reading, which is done, the one that Used returns, if it is good.
func (s *Sampler) take() bool {
	if s.last.err != nil {
		return false
	}
	s.used.Store(^s.last.bytes)
	return true
}

// read is one reading. All that is not this package's code runs here: the reader and
// the logger.
func (s *Sampler) read(r *reading) {
	defer close(r.done)
	r.err = errors.New("the reader has ended its goroutine") // as runtime.Goexit does
	defer func() {
		if cause := recover(); cause != nil {
			r.err = fmt.Errorf("the reader panicked: %v", cause)
		}
		if r.err != nil {
			s.log(r.err)
		}
	}()
	r.bytes, r.err = s.reader()
	if r.err == nil && r.bytes < 0 {
		r.err = fmt.Errorf("the reading is %d bytes; want 0 or more", r.bytes)
	}
}

// log logs each cause once.
func (s *Sampler) log(err error) {
	text := fmt.Sprint(err) // not err.Error(), which may panic
	cause := fmt.Sprintf("%.200s", text)
	if s.causes[cause] || len(s.causes) >= maxCauses {
		return
	}
	if s.causes == nil {
		s.causes = make(map[string]bool)
	}
	s.causes[cause] = true
	s.logger.Warn("leapgate: a reading of the memory failed; each cause is logged once",
		"error", text, "memory_unknown_after", staleAfter*s.every)
}

// wait reports whether the reading is done, or is so within that time.
func (r *reading) wait(longest time.Duration) bool {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}
