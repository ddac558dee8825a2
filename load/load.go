// Package load knows how busy the machine is on which the program runs: how much of the
// processors that it may use it does use, and whether it waits for them.
//
//	sampler, err := load.Start(load.Config{})
//	…
//	defer sampler.Close()
//	gate, err := leapgate.New(leapgate.Config{Load: sampler})
//
// A [Sampler] reads the load every 250 ms, or however often it is told to, and keeps the
// newest [Signals]. [Sampler.Signals] is one atomic load, so it may be asked at every call.
//
// # The signals
//
//   - CPU: the share that is used of the processors that may be used. It may be above 1 for a
//     moment: a quota is given out every 100 ms, and a sample has two of them or three.
//   - Throttled: the share of the periods of the quota in which it ran out, so that
//     everything stood still for the rest of the period. It is 0 without a quota.
//   - Pressure: the share of the time in which something that could run waited for a
//     processor, as the kernel's PSI has it.
//   - SchedLatency: how long goroutines that could run waited until they did, in seconds. 99 %
//     of those of the sample waited less, as far as the runtime's buckets tell.
//
// The last is the Go runtime's, which measures one in eight waits. Its meaning has changed with Go 1.26, and may change
// again: a rule should not depend on it alone.
//
// Each has the raw figure of the last sample, and a smoothed one: what was half a second ago
// counts √½ of what is now, with a half-life of 1 s. Of a step, a half is seen after 1 s, three quarters
// after 2 s, and 80 % after 2.5 s. A rule on the load thus knows of a flood only after
// seconds: it goes with a bound on the calls in flight.
//
// # What is read
//
// Every sample finds it anew, so that a process may be moved, and a quota changed, at any time.
//
//   - cgroup v2: cpu.stat, cpu.max and cpuset.cpus.effective. What may be used is the quota, the
//     processors of the cpuset, or those that the operating system gave to the process when it
//     began (runtime.NumCPU), whichever is least.
//   - cgroup v1: cpuacct.usage, cpu.cfs_quota_us, cpu.cfs_period_us, cpu.stat and
//     cpuset.effective_cpus, in the same way.
//   - else the process: what it has used by getrusage, of GOMAXPROCS processors.
//   - Pressure: cpu.pressure of the cgroup in version 2, else /proc/pressure/cpu, which is that
//     of the whole machine.
//
// The cgroup is that of /proc/self/cgroup, below the mounts /sys/fs/cgroup, and
// /sys/fs/cgroup/cpu, cpuacct and cpuset. If it is not there, the root of the mount is looked at:
// inside a container, that is its own cgroup. The root of the whole machine does not count as
// one. Where the cgroups above it can be seen and have quotas, what is nearest to its bound
// counts: a service may have used up the quota of its slice.
//
// # What is not known
//
// What is not there, or may not be read, is unknown, and so is what makes no sense; rules let calls pass then. Each
// cause is logged once, of at most 100. When a signal could not be read for 5 × [Config].Every, it is
// unknown until the next time. A counter that goes back, as when a process is moved, makes no sample.
//
// [Start] starts a goroutine, and [Sampler.Close] ends it. Everything may be called
// by any number of goroutines at once.
//
// # Sources
//
//   - cpu.stat, cpu.max, cpuset.cpus.effective and cpu.pressure: Control Group v2,
//     https://docs.kernel.org/admin-guide/cgroup-v2.html
//   - quotas and their periods: CFS Bandwidth Control,
//     https://docs.kernel.org/scheduler/sched-bwc.html
//   - cpuacct.usage: CPU Accounting Controller,
//     https://docs.kernel.org/admin-guide/cgroup-v1/cpuacct.html
//   - pressure: PSI, https://docs.kernel.org/accounting/psi.html
package load

import (
	"cmp"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/sampler"
)

const (
	defaultEvery = 250 * time.Millisecond
	minEvery     = 100 * time.Millisecond // the usual period of a quota
	maxEvery     = 10 * time.Second
)

// ErrConfig is wrapped by every error of [Start].
var ErrConfig = errors.New("leapgate: bad load configuration")

// Config says how a sampler works. The zero Config is a good one.
type Config struct {
	// Every is the time from one sample to the next: 100 ms to 10 s; 0 is 250 ms. Rules that
	// move by the sample, move as often. A sample takes less than a tenth of a millisecond.
	Every time.Duration

	// Logger gets why signals are not known, once per cause, and of at most 100 causes. Nil
	// is slog.Default().
	Logger *slog.Logger
}

// Sampler keeps the newest signals. Make one with [Start]. Those of the zero Sampler are
// unknown.
type Sampler struct {
	last    atomic.Pointer[Signals] // written by the sampler alone, read by everybody; nil: unknown
	source  atomic.Pointer[string]
	sampler *sampler.Sampler[*Signals]
}

// Start begins to sample. It reads once before it returns.
// Most signals are known from the second sample on, which is when there is a difference. The error, if
// any, is [ErrConfig], and nothing was started.
func Start(cfg Config) (*Sampler, error) { return start(cfg, thisMachine()) }

func start(cfg Config, m *machine) (*Sampler, error) {
	s := new(Sampler)
	r := &recorder{
		machine: m, every: cmp.Or(cfg.Every, defaultEvery),
		causes: sampler.Causes{Logger: cfg.Logger}, source: &s.source,
	}
	var err error
	s.sampler, err = sampler.Start(sampler.Config[*Signals]{
		What: "load", Every: cfg.Every, Min: minEvery, Max: maxEvery, Default: defaultEvery,
		Logger: cfg.Logger, BadConfig: ErrConfig,
		Read:   func() (*Signals, error) { return r.sample(), nil },
		Take:   func(now *Signals) { s.last.Store(now) },
		Forget: func() { s.last.Store(nil) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Signals returns the newest signals. They must not be changed. It is never nil: all are unknown
// when nothing was read for 5 × Every, and after Close. It does not block, and allocates
// nothing.
func (s *Sampler) Signals() *Signals {
	if now := s.last.Load(); now != nil {
		return now
	}
	return &unknown
}

// Source returns where the last CPU was read: "cgroup v2", "cgroup v1" or "process"; "" if it
// was not.
func (s *Sampler) Source() string {
	if source := s.source.Load(); source != nil {
		return *source
	}
	return ""
}

// Close stops the sampler, and makes all signals unknown. It waits for a reading in progress. The error is always nil.
func (s *Sampler) Close() error {
	s.sampler.Close()
	return nil
}
