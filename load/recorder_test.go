package load

import (
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmooth_AStepIsSeenByItsHalfLife(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	last := now
	s := Signal{Known: true}
	sample := func(raw float64) float64 {
		now = now.Add(250 * time.Millisecond)
		smooth(&s, &last, raw, now)
		return s.Value
	}
	seen := make([]float64, 11) // after so many samples
	for i := 1; i <= 10; i++ {
		seen[i] = sample(1)
	}
	require.InDelta(t, 0.5, seen[4], 1e-9, "after 1 s")
	require.InDelta(t, 0.75, seen[8], 1e-9, "after 2 s")
	require.Less(t, seen[9], 0.8)
	require.GreaterOrEqual(t, seen[10], 0.8, "after 2.5 s")

	s = Signal{Value: 1, Known: true}
	for i := 1; i <= 10; i++ {
		require.InDelta(t, 1-seen[i], sample(0), 1e-9, "it falls as it rose")
	}
	for range 4 * 60 {
		sample(0)
	}
	require.Equal(t, Signal{Known: true}, s, "to 0 when idle")
}

// However often it is sampled: the half-life is a time.
func TestSmooth_DependsOnTheTimeAndNotOnTheSamples(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second, 2 * time.Second} {
		now := time.Unix(0, 0)
		s, last := Signal{Known: true}, now
		for range 2 * time.Second / every {
			now = now.Add(every)
			smooth(&s, &last, 1, now)
		}
		require.InDelta(t, 0.75, s.Value, 1e-9, every)
	}
}

func TestSmooth_TheFirstSampleIsAllThatIsKnown(t *testing.T) {
	t.Parallel()
	var s Signal
	var last time.Time
	smooth(&s, &last, 0.7, time.Unix(5, 0))
	require.Equal(t, Signal{Value: 0.7, Raw: 0.7, Known: true}, s)
}

func TestThrottled_IsTheShareOfThePeriods(t *testing.T) {
	t.Parallel()
	b := ofQuota("50000 100000\n")
	r := b.recorder()
	next := func(periods, throttled int) Signal {
		b.time = b.time.Add(250 * time.Millisecond)
		b.useV2("", 0, periods, throttled)
		return r.sample().Throttled
	}
	require.False(t, r.sample().Throttled.Known)
	requireKnown(t, 0.5, next(2, 1))
	requireKnown(t, 1, next(5, 4))
	requireKnown(t, 0, next(7, 4))
	requireKnown(t, 1, next(8, 5))
	for range 4 {
		requireKnown(t, 1, next(8, 5), "until the longest period that there can be is over")
	}
	requireKnown(t, 0, next(8, 5), "idle: no period begins")
	requireKnown(t, 1, next(11, 8))
	requireKnown(t, 1, next(3, 1), "a counter that went back makes no sample")
	requireKnown(t, 0.5, next(5, 2))
	requireKnown(t, 1, next(6, 9), "more than all is all")
}

// A quota with a period of a second has none in three samples of four.
func TestThrottled_PeriodsLongerThanASample(t *testing.T) {
	t.Parallel()
	b := ofQuota("500000 1000000\n")
	r := b.recorder()
	r.sample()
	var s Signal
	for i := range 80 {
		b.time = b.time.Add(250 * time.Millisecond)
		b.useV2("", 0, i/4, i/4)
		s = r.sample().Throttled
	}
	requireKnown(t, 1, s)
	require.InDelta(t, 1, s.Value, 1e-9)
}

func TestThrottled_WithoutAQuota(t *testing.T) {
	t.Parallel()
	b := ofQuota("max 100000\n")
	requireKnown(t, 0, b.recorder().sample().Throttled)

	b = ofQuota("max 100000\n")
	b.set(v2+"cpu.stat", cpuStat(5))
	r := b.recorder()
	for range 5 {
		b.time = b.time.Add(time.Second)
		require.False(t, r.sample().Throttled.Known, "the controller is not on: those above may have a quota")
	}
	require.Equal(t, 1, strings.Count(b.log.String(), "signal=Throttled"))
}

func TestThrottled_ByTheQuotaAbove(t *testing.T) {
	t.Parallel()
	b := newBox(map[string]string{
		group: "0::/shop.slice/shop.service\n", v2 + "shop.slice/shop.service/cpu.stat": cpuStat(0),
		v2 + "shop.slice/cpu.max": "50000 100000\n",
	})
	b.useV2("shop.slice/", 0, 0, 0)
	r := b.recorder()
	r.sample()
	b.time = b.time.Add(time.Second)
	b.useV2("shop.slice/", 0, 10, 3)
	requireKnown(t, 0.3, r.sample().Throttled)
}

func TestThrottled_OnV1(t *testing.T) {
	t.Parallel()
	b := newBox(map[string]string{
		group: "4:cpu,cpuacct:/\n", v1 + "cpu.cfs_quota_us": "50000\n", v1 + "cpu.cfs_period_us": "100000\n",
		v1 + "cpu.stat": "nr_periods 10\nnr_throttled 5\nthrottled_time 99\n", v1Usage + "cpuacct.usage": "0\n",
	})
	r := b.recorder()
	r.sample()
	b.time = b.time.Add(time.Second)
	b.set(v1+"cpu.stat", "nr_periods 20\nnr_throttled 12\nthrottled_time 99\n")
	requireKnown(t, 0.7, r.sample().Throttled)
}

func TestPressure_IsTheShareOfTheTimeInWhichSomethingWaits(t *testing.T) {
	t.Parallel()
	b := newBox(nil)
	b.pressure("proc/pressure/cpu", 144_188_066)
	r := b.recorder()
	require.False(t, r.sample().Pressure.Known)
	for i, c := range []struct {
		total int
		want  float64
	}{
		{125_000, 0.5},
		{125_000 + 250_000, 1},
		{125_000 + 250_000, 0},
		{0, 0}, // it goes back: no sample
		{25_000, 0.1},
	} {
		b.time = b.time.Add(250 * time.Millisecond)
		b.pressure("proc/pressure/cpu", 144_188_066+c.total)
		requireKnown(t, c.want, r.sample().Pressure, i)
	}
}

func TestPressure_WhoseItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, groups string
		files        []string // the first that is read
	}{
		{"the cgroup of the process", "0::/a\n", []string{v2 + "a/cpu.pressure", v2 + "cpu.pressure", machinePressure}},
		{"a container that sees the path of the host", "0::/a\n", []string{v2 + "cpu.pressure", machinePressure}},
		{"v1 has none, so it is that of the machine", "4:cpu:/a\n", []string{machinePressure, v1 + "a/cpu.pressure", v2 + "cpu.pressure"}},
	} {
		b := newBox(map[string]string{group: c.groups})
		for _, name := range c.files {
			b.pressure(name, 0)
		}
		r := b.recorder()
		r.sample()
		b.time = b.time.Add(time.Second)
		b.pressure(c.files[0], 600_000)
		requireKnown(t, 0.6, r.sample().Pressure, c.name)
	}
}

func TestPressure_KernelWithoutIt(t *testing.T) {
	t.Parallel()
	b := newBox(map[string]string{group: "0::/\n"})
	b.pressure(v2+"cpu.pressure", 0)
	for _, err := range []error{syscall.EOPNOTSUPP, syscall.ENOENT} {
		r := b.recorder()
		r.machine.files.Root = &faultyFS{FS: b.files, name: v2 + "cpu.pressure", err: err}
		b.log.Reset()
		for range 10 {
			require.False(t, r.sample().Pressure.Known)
			b.time = b.time.Add(time.Second)
		}
		require.Equal(t, 1, strings.Count(b.log.String(), "signal=Pressure"))
		require.Contains(t, b.log.String(), `level=INFO msg="leapgate: a signal of the load could not be read; each cause is logged once" `+
			`error="there is no /proc/pressure/cpu: this machine does not tell it" signal=Pressure`)
	}
}

func TestPressure_BadFiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n", "some\n", "some avg10=1\n", "some avg10=1 total=\n", "some total=-1\n", "some total=x\n", "some total=9223372036854775807\n",
		"full avg10=0 total=5\n", "sometotal=5\n", " some total=5\n", "some total=0x10\n", strings.Repeat("x", 1<<20+1),
	} {
		b := newBox(nil)
		r := b.recorder()
		b.set(machinePressure, text)
		for range 3 {
			require.False(t, r.sample().Pressure.Known, "%.40q", text)
			b.time = b.time.Add(time.Second)
		}
		require.Equal(t, 1, strings.Count(b.log.String(), "level=WARN"), "%.40q", text)
		require.Contains(t, b.log.String(), "/proc/pressure/cpu has ")
		require.Less(t, b.log.Len(), 1000)
	}
}

// A kernel that stops to tell it, or a file that is bad for a while.
func TestSample_SignalIsUnknownAfterFiveTimesEvery(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	b.pressure(v2+"cpu.pressure", 0)
	r := b.recorder()
	r.sample()
	used := 0
	next := func() *Signals {
		b.time = b.time.Add(defaultEvery)
		used += 125_000
		return r.sample()
	}
	b.useV2("", 125_000, 0, 0)
	requireKnown(t, 0.5, next().CPU)
	for range 3 {
		b.set(v2+"cpu.stat", "usage_usec x\n")
		for range 5 {
			requireKnown(t, 0.5, next().CPU, "the last good one stays")
		}
		for range 5 {
			s := next()
			require.Equal(t, Signal{}, s.CPU)
			require.True(t, s.Pressure.Known)
		}
		b.useV2("", used+125_000, 0, 0)
		requireKnown(t, 0.5, next().CPU)
	}
	require.Equal(t, 1, strings.Count(b.log.String(), "signal=CPU"), "once per cause, also if it was good in between")
}

func TestSample_EachIsANewOne(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	r := b.recorder()
	first := r.sample()
	before := *first
	for i := range 10 {
		b.time = b.time.Add(defaultEvery)
		b.useV2("", i*1000, 0, 0)
		require.EqualValues(t, i+2, r.sample().Seq)
	}
	require.Equal(t, before, *first, "what was handed out does not change")
}

func TestPercentile_OfTheLatencies(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	edges := []float64{-inf, 0, 1, 2, 3, inf}
	for _, c := range []struct {
		counts []uint64
		want   float64
	}{
		{[]uint64{0, 0, 0, 0, 0}, 0},
		{[]uint64{0, 1, 0, 0, 0}, 1},
		{[]uint64{0, 99, 1, 0, 0}, 1},
		{[]uint64{0, 98, 1, 1, 0}, 2},
		{[]uint64{0, 98, 0, 2, 0}, 3},
		{[]uint64{0, 0, 50, 49, 1}, 3},
		{[]uint64{0, 98, 0, 0, 2}, 3},
		{[]uint64{5, 0, 0, 0, 0}, 0},
		{[]uint64{0, 9900, 0, 0, 100}, 1},
		{[]uint64{0, 9899, 0, 0, 101}, 3},
	} {
		before := []uint64{7, 0, 3, 9, 1 << 60}
		counts := make([]uint64, len(before))
		for i := range counts {
			counts[i] = before[i] + c.counts[i]
		}
		require.InDelta(t, c.want, percentile99(edges, counts, before), 0, "%v", c.counts)
	}
}

func TestScheduler_OfThisRuntime(t *testing.T) {
	t.Parallel()
	var s scheduler
	_, ok := s.latency()
	require.False(t, ok, "no difference yet")
	seconds, ok := s.latency()
	require.True(t, ok)
	require.GreaterOrEqual(t, seconds, 0.0)
}

// Whatever the files hold, signals are numbers that make sense, or unknown.
func FuzzSample(f *testing.F) {
	f.Add("0::/\n", "usage_usec 5\nnr_periods 1\nnr_throttled 1\n", "max 100000\n", "0-3\n", "some total=5\n")
	f.Add("4:cpu,cpuacct:/a\n0::/a/b\n", "nr_periods 1\nnr_throttled 1\n", "50000 100000\n", "", "")
	f.Fuzz(func(t *testing.T, groups, stat, quota, cpus, pressure string) {
		b := newBox(map[string]string{group: groups, v2 + "cgroup.events": ""})
		r := b.recorder()
		for i, text := range []string{stat, "usage_usec 7\n", stat} {
			for _, folder := range []string{"", "a/", "a/b/"} {
				b.set(v2+folder+"cpu.stat", text)
				b.set(v2+folder+"cpu.max", quota)
			}
			b.set(v2+"cpuset.cpus.effective", cpus)
			b.set(v1+"cpu.stat", text)
			b.set(v1+"cpu.cfs_quota_us", quota)
			b.set(v1+"cpu.cfs_period_us", cpus)
			b.set(v1Usage+"cpuacct.usage", stat)
			b.set(machinePressure, pressure)
			b.time = b.time.Add(time.Second)
			s := r.sample()
			require.EqualValues(t, i+1, s.Seq)
			for _, signal := range []Signal{s.CPU, s.Throttled, s.Pressure} {
				require.GreaterOrEqual(t, signal.Value, 0.0)
				require.False(t, math.IsInf(signal.Value, 0) || math.IsNaN(signal.Raw))
			}
			require.GreaterOrEqual(t, s.Processors, 0.0)
		}
	})
}
