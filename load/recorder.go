package load

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/cgroup"
	"github.com/leapgate-go/leapgate/internal/sampler"
)

const (
	// halfLife is after what time a sample counts half as much as now.
	halfLife = time.Second
	// same is how far two values may be apart and still be the same.
	same = 1e-9
	// longestPeriod is the longest that a quota can have.
	longestPeriod = time.Second
)

// What machines do not tell. That is not a fault.
var (
	errUnread   = errors.New("this machine does not tell it")
	errPeriods  = fmt.Errorf("no cgroup has nr_periods in cpu.stat: %w", errUnread)
	errPressure = fmt.Errorf("there is no /%s: %w", machinePressure, errUnread)
)

// recorder makes signals of what it reads. One sample is made at a time.
type recorder struct {
	machine   *machine
	scheduler scheduler
	every     time.Duration
	causes    sampler.Causes
	source    *atomic.Pointer[string]

	last  Signals
	begun time.Time // the last sample
	// When each signal was last good.
	cpuAt, throttledAt, pressureAt, latencyAt time.Time

	// The counters at the last sample; of the periods, when there last were some.
	usage   usage
	periods usage
	stalled stalled
}

// sample reads everything. When it comes soon after the one before, which hung, that stands.
func (r *recorder) sample() *Signals {
	signals := r.last
	begun := r.machine.now()
	if r.last.Seq > 0 && begun.Sub(r.begun) < r.every/2 {
		return &signals
	}
	r.begun = begun
	r.last.Seq++
	groups, err := r.machine.files.Groups()
	if err == nil {
		r.cpu(groups)
		r.pressure(groups)
	} else {
		r.log("CPU", err)
	}
	seconds, ok := r.scheduler.latency()
	now := r.machine.now()
	if ok {
		smooth(&r.last.SchedLatency, &r.latencyAt, seconds, now)
	}
	r.expire(&r.last.CPU, r.cpuAt, now)
	r.expire(&r.last.Throttled, r.throttledAt, now)
	r.expire(&r.last.Pressure, r.pressureAt, now)
	r.expire(&r.last.SchedLatency, r.latencyAt, now)
	signals = r.last
	return &signals
}

// smooth adds a sample, which is good for the time since the last good one.
func smooth(s *Signal, last *time.Time, raw float64, now time.Time) {
	weight := 1.0
	if s.Known {
		weight -= math.Exp2(-float64(now.Sub(*last)) / float64(halfLife))
	}
	value := s.Value + weight*(raw-s.Value)
	if math.Abs(value-raw) < same { // or it would never get there
		value = raw
	}
	*s = Signal{Value: value, Raw: raw, Known: true}
	*last = now
}

// expire makes a signal unknown if it was not good for too long.
func (r *recorder) expire(s *Signal, last, now time.Time) {
	if s.Known && now.Sub(last) > sampler.StaleAfter*r.every {
		*s = Signal{}
	}
}

// log logs why a signal is not known.
func (r *recorder) log(signal string, err error) {
	level := slog.LevelWarn
	if errors.Is(err, errUnread) {
		level = slog.LevelInfo
	}
	r.causes.Log(level, "leapgate: a signal of the load could not be read; each cause is logged once", err, "signal", signal)
}

// late reports whether the sample has taken so long that it is not known when what was read
// was true.
func (r *recorder) late() bool { return r.machine.now().Sub(r.begun) > r.every/10 }

func (r *recorder) cpu(groups cgroup.Groups) {
	now, err := r.machine.usage(groups)
	if r.late() {
		return
	}
	if err != nil {
		r.log("CPU", err)
		return
	}
	r.source.Store(&now.source)
	r.last.Processors = now.levels[0].limit
	if share, ok := now.share(&r.usage); ok {
		smooth(&r.last.CPU, &r.cpuAt, share, now.levels[0].at)
	}
	r.usage = now
	r.throttled(&now)
}

// share returns the share of what may be used that was used since before: of the level that is
// nearest to its bound.
func (u *usage) share(before *usage) (share float64, ok bool) {
	if !u.sameCounters(before) {
		return 0, false
	}
	for i := range u.levels {
		l, b := &u.levels[i], &before.levels[i]
		used, passed := l.used-b.used, l.at.Sub(b.at)
		if used < 0 || passed <= 0 {
			return 0, false
		}
		share = max(share, float64(used)/(float64(passed)*l.limit))
	}
	return share, true
}

// throttled compares with the last sample in which there was a period, for not all have one.
func (r *recorder) throttled(now *usage) {
	at := now.levels[0].at
	quotas, counted := false, false
	for i := range now.levels {
		quotas = quotas || now.levels[i].hasQuota
		counted = counted || now.levels[i].hasPeriods
	}
	if !counted {
		r.log("Throttled", errPeriods)
		return
	}
	share, periods, ok := now.throttled(&r.periods)
	switch {
	case !quotas:
		share = 0
	case !ok:
		r.periods = *now
		return
	case periods == 0 && at.Sub(r.periods.levels[0].at) <= longestPeriod:
		if last := r.last.Throttled; last.Known {
			smooth(&r.last.Throttled, &r.throttledAt, last.Raw, at)
		}
		return
	}
	r.periods = *now
	smooth(&r.last.Throttled, &r.throttledAt, share, at)
}

// throttled returns the share of the periods since before that were throttled, of the level that has
// most, and how many periods there were.
func (u *usage) throttled(before *usage) (share float64, periods int64, ok bool) {
	if !u.sameCounters(before) {
		return 0, 0, false
	}
	for i := range u.levels {
		l, b := &u.levels[i], &before.levels[i]
		if !l.hasPeriods || !b.hasPeriods {
			continue
		}
		n, throttled := l.periods-b.periods, l.throttled-b.throttled
		if n < 0 || throttled < 0 {
			return 0, 0, false
		}
		if n > 0 {
			periods = max(periods, n)
			share = max(share, min(1, float64(throttled)/float64(n)))
		}
	}
	return share, periods, true
}

func (r *recorder) pressure(groups cgroup.Groups) {
	now, err := r.machine.stalled(groups)
	if r.late() {
		return
	}
	if err != nil {
		r.log("Pressure", err)
		return
	}
	before := r.stalled
	r.stalled = now
	stalled, passed := now.total-before.total, now.at.Sub(before.at)
	if now.file != before.file || stalled < 0 || passed <= 0 {
		return
	}
	smooth(&r.last.Pressure, &r.pressureAt, float64(stalled)/float64(passed), now.at)
}
