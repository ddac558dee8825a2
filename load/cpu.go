package load

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

// process is the [Sampler.Source] where there is no cgroup.
const process = "process"

const (
	// maxLevels bounds how many cgroups, one in the other, are read.
	maxLevels = 16
	maxCPUs   = 1 << 16
)

// machine is what the CPU is read of.
type machine struct {
	files      cgroup.Files
	now        func() time.Time // of the same clock as the time of the samples
	cpus       func() int       // that the process was given when it began
	gomaxprocs func() int
	process    func() (used time.Duration, ok bool) // processor time of this process
}

func thisMachine() *machine {
	return &machine{
		files:      cgroup.Machine(),
		now:        time.Now,
		cpus:       runtime.NumCPU,
		gomaxprocs: func() int { return runtime.GOMAXPROCS(0) },
		process:    processTime,
	}
}

// usage is the processor time used up to now: of the cgroup of the process, and of those
// above it that have a quota; else of the process.
type usage struct {
	source string
	levels []level // the first is the cgroup of the process
}

type level struct {
	folder string
	at     time.Time
	used   time.Duration
	limit  float64 // processors that may be used

	hasQuota, hasPeriods bool
	periods, throttled   int64 // of the quota
}

// sameCounters reports whether two readings are of the same counters.
func (u *usage) sameCounters(before *usage) bool {
	if u.source != before.source || len(u.levels) != len(before.levels) {
		return false
	}
	for i := range u.levels {
		if u.levels[i].folder != before.levels[i].folder {
			return false
		}
	}
	return true
}

// hierarchy is one version of cgroups, as the CPU is read there.
type hierarchy struct {
	source     string
	controller string // by which /proc/self/cgroup names it
	mount      string
	cpuset     string // the mount and the file of the processors
	cpus       string
	machine    string // a file that tells the cgroup of the whole machine by being there
	container  string // or by not being there
}

// A machine that mounts both has the CPU in one of them only.
var hierarchies = []hierarchy{
	{
		source: cgroup.V2, mount: cgroup.MountV2,
		cpuset: cgroup.MountV2, cpus: "cpuset.cpus.effective", container: "cgroup.events",
	},
	{
		source: cgroup.V1, controller: "cpu", mount: cgroup.MountV2 + "/cpu",
		cpuset: cgroup.MountV2 + "/cpuset", cpus: "cpuset.effective_cpus", machine: "release_agent",
	},
}

// usage reads what was used.
func (m *machine) usage(groups cgroup.Groups) (usage, error) {
	for i := range hierarchies {
		h := &hierarchies[i]
		path, ok := groups.Of(h.controller)
		if !ok {
			continue
		}
		for _, path := range []string{path, ""} {
			if path == "" && m.isMachine(h) {
				break
			}
			levels, err := m.levels(h, groups, path)
			if !cgroup.Absent(err) {
				return usage{h.source, levels}, err
			}
		}
	}
	at := m.now()
	used, ok := m.process()
	if !ok {
		return usage{}, errUnread
	}
	return usage{process, []level{{at: at, used: used, limit: float64(m.gomaxprocs())}}}, nil
}

// isMachine reports whether the root of the mount is the cgroup of the whole machine.
func (m *machine) isMachine(h *hierarchy) bool {
	if h.container != "" {
		return !m.files.Has(h.mount + "/" + h.container)
	}
	return m.files.Has(h.mount + "/" + h.machine)
}

// levels reads a cgroup, and those above it that have a quota.
func (m *machine) levels(h *hierarchy, groups cgroup.Groups, path string) ([]level, error) {
	ownUsage := true // of cgroups, not of the process
	if h.source == cgroup.V1 {
		cpu, _ := groups.Of("cpu")
		accounts, ok := groups.Of("cpuacct")
		ownUsage = ok && accounts == cpu
	}
	levels := make([]level, 0, 2)
	for range maxLevels {
		l, err := m.level(h, groups, path, len(levels) == 0, ownUsage)
		if err != nil && (len(levels) == 0 || !cgroup.Absent(err)) {
			return nil, err
		}
		if err == nil && (len(levels) == 0 || l.hasQuota) {
			levels = append(levels, l)
		}
		if path == "" || !ownUsage {
			break
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return levels, nil
}

// level reads one cgroup.
func (m *machine) level(h *hierarchy, groups cgroup.Groups, path string, own, ownUsage bool) (l level, err error) {
	// Not path.Join, which would make something else of a path with dots.
	l.folder = h.mount + path
	if l.limit, l.hasQuota, err = m.quota(h, l.folder); err != nil {
		return l, err
	}
	if !own && !l.hasQuota {
		return l, nil
	}
	if own {
		cpus, err := m.processors(h, groups, path)
		if err != nil {
			return l, err
		}
		if !l.hasQuota || l.limit > cpus {
			l.limit = cpus
		}
	}
	l.at = m.now()
	name := l.folder + "/cpu.stat"
	stat, err := m.files.Read(name)
	if err != nil {
		return l, err
	}
	if l.used, err = m.used(h, path, stat, ownUsage); err != nil {
		return l, err
	}
	periods, has := cgroup.Value(stat, "nr_periods")
	throttled, hasToo := cgroup.Value(stat, "nr_throttled")
	if !has || !hasToo {
		return l, nil
	}
	l.hasPeriods = true
	if l.periods, err = cgroup.Number(name, periods); err == nil {
		l.throttled, err = cgroup.Number(name, throttled)
	}
	return l, err
}

// used reads the processor time that a cgroup has used; that of the process, if its cgroup is
// another one there.
func (m *machine) used(h *hierarchy, path, stat string, ownUsage bool) (time.Duration, error) {
	var text string
	var err error
	name, unit := h.mount+path+"/cpu.stat", time.Microsecond
	if h.source == cgroup.V2 {
		text, _ = cgroup.Value(stat, "usage_usec")
	} else {
		name, unit = cgroup.MountV2+"/cpuacct"+path+"/cpuacct.usage", time.Nanosecond
		if ownUsage {
			text, err = m.files.Read(name)
		}
		if !ownUsage || cgroup.Absent(err) {
			if used, ok := m.process(); ok {
				return used, nil
			}
			return 0, errUnread
		}
	}
	if err != nil {
		return 0, err
	}
	return duration(name, strings.TrimSuffix(text, "\n"), unit)
}

// duration reads a time that a file has.
func duration(name, text string, unit time.Duration) (time.Duration, error) {
	n, err := cgroup.Number(name, text)
	if err == nil && n > math.MaxInt64/int64(unit) {
		err = fmt.Errorf("/%s has %d times %v; want at most %v", name, n, unit, time.Duration(math.MaxInt64))
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(n) * unit, nil
}

// quota reads how many processors a cgroup may use on average.
func (m *machine) quota(h *hierarchy, folder string) (processors float64, has bool, err error) {
	name, none, quota, period := folder+"/cpu.max", "max", "", ""
	if h.source == cgroup.V2 {
		var text string
		if text, err = m.files.Read(name); err == nil {
			quota, period, _ = strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		}
	} else {
		name, none = folder+"/cpu.cfs_quota_us", "-1"
		if quota, err = m.files.Read(name); err == nil {
			period, err = m.files.Read(folder + "/cpu.cfs_period_us")
		}
		quota, period = strings.TrimSuffix(quota, "\n"), strings.TrimSuffix(period, "\n")
	}
	switch {
	case cgroup.Absent(err): // the controller is not on for this cgroup
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case quota == none:
		return 0, false, nil
	}
	q, err := cgroup.Number(name, quota)
	if err != nil {
		return 0, false, err
	}
	p, err := cgroup.Number(name, period)
	if err != nil {
		return 0, false, err
	}
	if q == 0 || p == 0 {
		return 0, false, fmt.Errorf("/%s has %d µs of every %d µs; want both above 0", name, q, p)
	}
	return float64(q) / float64(p), true, nil
}

// processors returns how many processors the cgroup of the process has: those of its cpuset,
// or of the nearest above it that is known, or of the process.
func (m *machine) processors(h *hierarchy, groups cgroup.Groups, path string) (float64, error) {
	if h.source == cgroup.V1 {
		path, _ = groups.Of("cpuset")
	}
	all := m.cpus()
	for range maxLevels {
		name := h.cpuset + path + "/" + h.cpus
		text, err := m.files.Read(name)
		if err != nil && !cgroup.Absent(err) {
			return 0, err
		}
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			n, ok := countCPUs(text)
			if !ok {
				return 0, fmt.Errorf("/%s has %.40q; want processors such as 0-3,7", name, text)
			}
			return float64(min(n, all)), nil
		}
		if path == "" {
			break
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return float64(all), nil
}

// countCPUs counts the processors of a list such as 0-3,7.
func countCPUs(list string) (n int, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return 0, false
		}
		to := from
		if isRange {
			if to, err = strconv.ParseUint(last, 10, 16); err != nil || to < from {
				return 0, false
			}
		}
		if n += int(to-from) + 1; n > maxCPUs {
			return 0, false
		}
	}
	return n, true
}
