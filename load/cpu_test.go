package load

import (
	"io/fs"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

// cpuStat is a cpu.stat of version 2 in which so many microseconds are used.
func cpuStat(used int) string {
	return "usage_usec " + strconv.Itoa(used) + "\nuser_usec 1\nsystem_usec 2\n"
}

// What is used is a share of what the container may use: file trees as they are on Docker, Kubernetes,
// systemd and bare machines.
func TestCPU_OfMachinesAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		files      map[string]string // at the begin
		then       map[string]string // one second later
		source     string
		cpu        float64
		processors float64
	}{
		{
			"Docker on v2, two processors",
			map[string]string{
				group: "0::/\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": "200000 100000\n",
				v2 + "cpuset.cpus.effective": "0-7\n", v2 + "cpu.stat": cpuStat(1_000_000),
			},
			map[string]string{v2 + "cpu.stat": cpuStat(2_500_000)},
			cgroup.V2, 0.75, 2,
		},
		{
			"Docker on v2, half a processor",
			map[string]string{
				group: "0::/\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": "50000 100000\n",
				v2 + "cpuset.cpus.effective": "0-7\n", v2 + "cpu.stat": cpuStat(600_000),
			},
			map[string]string{v2 + "cpu.stat": cpuStat(1_000_000)},
			cgroup.V2, 0.8, 0.5,
		},
		{
			"Docker on v2, no quota but four processors of a cpuset",
			map[string]string{
				group: "0::/\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": "max 100000\n",
				v2 + "cpuset.cpus.effective": "0-3\n", v2 + "cpu.stat": cpuStat(0),
			},
			map[string]string{v2 + "cpu.stat": cpuStat(1_000_000)},
			cgroup.V2, 0.25, 4,
		},
		{
			"Docker on v2, a quota above the cpuset",
			map[string]string{
				group: "0::/\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": "800000 100000\n",
				v2 + "cpuset.cpus.effective": "1,5-6\n", v2 + "cpu.stat": cpuStat(0),
			},
			map[string]string{v2 + "cpu.stat": cpuStat(1_500_000)},
			cgroup.V2, 0.5, 3,
		},
		{
			"Kubernetes on v2, the path of the host is seen",
			map[string]string{
				group:                v2Pod,
				v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": "100000 100000\n",
				v2 + "cpu.stat":                cpuStat(0),
				v2 + "kubepods.slice/cpu.stat": cpuStat(7), v2 + "kubepods.slice/cpu.max": "1000 100000\n", // a stranger's
			},
			map[string]string{v2 + "cpu.stat": cpuStat(500_000)},
			cgroup.V2, 0.5, 1,
		},
		{
			"Kubernetes on v2, seen from the node: the pod is nearer to its bound",
			map[string]string{
				group: v2Pod,
				v2 + "kubepods.slice/pod1.slice/cri-1.scope/cpu.max":  "400000 100000\n",
				v2 + "kubepods.slice/pod1.slice/cri-1.scope/cpu.stat": cpuStat(0),
				v2 + "kubepods.slice/pod1.slice/cpu.max":              "200000 100000\n",
				v2 + "kubepods.slice/pod1.slice/cpu.stat":             cpuStat(5),
				v2 + "kubepods.slice/cpu.max":                         "max 100000\n",
				v2 + "kubepods.slice/cpu.stat":                        cpuStat(9_000_000),
				v2 + "cpu.stat":                                       cpuStat(99_000_000),
				v2 + "cpuset.cpus.effective":                          "0-15\n",
			},
			map[string]string{
				v2 + "kubepods.slice/pod1.slice/cri-1.scope/cpu.stat": cpuStat(1_000_000),
				v2 + "kubepods.slice/pod1.slice/cpu.stat":             cpuStat(1_800_005),
				v2 + "kubepods.slice/cpu.stat":                        cpuStat(90_000_000),
			},
			cgroup.V2, 0.9, 4,
		},
		{
			"systemd on v2, a service without a controller of its own",
			map[string]string{
				group: "0::/system.slice/shop.service\n",
				v2 + "system.slice/shop.service/cpu.stat": cpuStat(0),
				v2 + "system.slice/cpu.stat":              cpuStat(0), v2 + "cpu.stat": cpuStat(0),
				v2 + "cpuset.cpus.effective": "0-3\n",
			},
			map[string]string{v2 + "system.slice/shop.service/cpu.stat": cpuStat(2_000_000)},
			cgroup.V2, 0.5, 4,
		},
		{
			"systemd on v2, the slice has a quota",
			map[string]string{
				group:                                   "0::/shop.slice/shop.service\n",
				v2 + "shop.slice/shop.service/cpu.stat": cpuStat(0), v2 + "shop.slice/shop.service/cpu.max": "max 100000\n",
				v2 + "shop.slice/cpu.stat": cpuStat(0), v2 + "shop.slice/cpu.max": "50000 100000\n",
			},
			map[string]string{
				v2 + "shop.slice/shop.service/cpu.stat": cpuStat(100_000),
				v2 + "shop.slice/cpu.stat":              cpuStat(500_000),
			},
			cgroup.V2, 1, 64,
		},
		{
			"v2, a namespace that was left",
			map[string]string{
				group: "0::/../other\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.stat": cpuStat(0),
				v2 + "cpu.max": "100000 100000",
			},
			map[string]string{v2 + "cpu.stat": cpuStat(250_000)},
			cgroup.V2, 0.25, 1,
		},
		{
			"a bare machine on v2: its root is everybody's",
			map[string]string{group: "0::/\n", v2 + "cpu.stat": cpuStat(0), v2 + "cpuset.cpus.effective": "0-1\n"},
			map[string]string{v2 + "cpu.stat": cpuStat(2_000_000)},
			process, 0.125, 8,
		},
		{
			"Docker on v1, with the path of the host",
			map[string]string{
				group:                     "4:cpu,cpuacct:/docker/1\n3:cpuset:/docker/1\n2:memory:/docker/1\n",
				v1 + "cpu.cfs_quota_us":   "150000\n",
				v1 + "cpu.cfs_period_us":  "100000\n",
				v1 + "cpu.stat":           "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
				v1Usage + "cpuacct.usage": "1000000000\n",
			},
			map[string]string{v1Usage + "cpuacct.usage": "1750000000\n"},
			cgroup.V1, 0.5, 1.5,
		},
		{
			"Docker on v1, no quota but a cpuset",
			map[string]string{
				group:                              "4:cpu,cpuacct:/\n3:cpuset:/\n",
				v1 + "cpu.cfs_quota_us":            "-1\n",
				v1 + "cpu.cfs_period_us":           "100000\n",
				v1 + "cpu.stat":                    "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
				v1Usage + "cpuacct.usage":          "0\n",
				v1Cpuset + "cpuset.effective_cpus": "2-3\n",
			},
			map[string]string{v1Usage + "cpuacct.usage": "1500000000\n"},
			cgroup.V1, 0.75, 2,
		},
		{
			"v1 beside v2 without controllers, seen from the machine",
			map[string]string{
				group:                       "4:cpu:/a\n3:cpuset:/b\n2:cpuacct:/a\n0::/\n",
				v1 + "release_agent":        "\n",
				v1 + "cpu.stat":             "nr_periods 0\nnr_throttled 0\n",
				v1 + "cpu.cfs_quota_us":     "-1\n",
				v1 + "cpu.cfs_period_us":    "100000\n",
				v1Usage + "cpuacct.usage":   "9\n",
				v1 + "a/cpu.cfs_quota_us":   "50000\n",
				v1 + "a/cpu.cfs_period_us":  "100000\n",
				v1 + "a/cpu.stat":           "nr_periods 0\nnr_throttled 0\n",
				v1Usage + "a/cpuacct.usage": "0\n",
				v2 + "unified/cpu.stat":     cpuStat(0),
				v1Usage + "release_agent":   "\n",
			},
			map[string]string{v1Usage + "a/cpuacct.usage": "500000000\n"},
			cgroup.V1, 1, 0.5,
		},
		{
			"v1, where the two controllers have different cgroups: what the process uses",
			map[string]string{
				group:                       "4:cpu:/a\n2:cpuacct:/\n",
				v1 + "a/cpu.cfs_quota_us":   "200000\n",
				v1 + "a/cpu.cfs_period_us":  "100000\n",
				v1 + "a/cpu.stat":           "nr_periods 0\nnr_throttled 0\n",
				v1Usage + "cpuacct.usage":   "0\n",
				v1Usage + "a/cpuacct.usage": "0\n",
			},
			nil,
			cgroup.V1, 0.5, 2,
		},
		{
			"a bare machine on v1",
			map[string]string{
				group: "4:cpu,cpuacct:/\n", v1 + "release_agent": "\n", v1 + "cpu.stat": "nr_periods 0\n",
				v1Usage + "cpuacct.usage": "0\n",
			},
			nil, process, 0.125, 8,
		},
		{"no cgroups", map[string]string{group: "0::/a\n4:cpu:/a\n"}, nil, process, 0.125, 8},
		{"no /proc", nil, nil, process, 0.125, 8},
	} {
		b := newBox(c.files)
		r := b.recorder()
		require.False(t, r.sample().CPU.Known, c.name)
		b.time = b.time.Add(time.Second)
		b.used += time.Second
		for name, text := range c.then {
			b.set(name, text)
		}
		s := r.sample()
		requireKnown(t, c.cpu, s.CPU, c.name)
		require.InDelta(t, c.processors, s.Processors, 1e-9, c.name)
		require.Equal(t, c.source, *r.source.Load(), c.name)
		require.Empty(t, b.logged("level=WARN"), c.name)
	}
}

const v2Pod = "0::/kubepods.slice/pod1.slice/cri-1.scope\n"

// ofQuota is a container on v2 with a quota.
func ofQuota(quota string) *box {
	b := newBox(map[string]string{group: "0::/\n", v2 + "cgroup.events": "populated 1\n", v2 + "cpu.max": quota})
	b.useV2("", 0, 0, 0)
	return b
}

func TestCPU_QuotaThatChangesHoldsFromTheNextSampleOn(t *testing.T) {
	t.Parallel()
	b := ofQuota("200000 100000\n")
	r := b.recorder()
	r.sample()
	for i, c := range []struct {
		quota string
		cpu   float64
	}{{"200000 100000\n", 0.375}, {"100000 100000\n", 0.75}, {"300000 100000\n", 0.25}} {
		b.time = b.time.Add(time.Second)
		b.set(v2+"cpu.max", c.quota)
		b.useV2("", (i+1)*750_000, 0, 0)
		requireKnown(t, c.cpu, r.sample().CPU)
	}
}

func TestCPU_CounterThatGoesBackMakesNoSample(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	r := b.recorder()
	r.sample()
	b.time = b.time.Add(time.Second)
	b.useV2("", 500_000, 0, 0)
	requireKnown(t, 0.5, r.sample().CPU)

	b.time = b.time.Add(time.Second)
	b.useV2("", 100_000, 0, 0)
	requireKnown(t, 0.5, r.sample().CPU, "as before")

	b.time = b.time.Add(time.Second)
	b.useV2("", 300_000, 0, 0)
	requireKnown(t, 0.2, r.sample().CPU, "from where it went to")
}

func TestCPU_ProcessThatIsMovedBeginsAnew(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	b.set(v2+"a/cpu.max", "100000 100000\n")
	b.useV2("a/", 9_000_000, 0, 0)
	r := b.recorder()
	r.sample()
	b.time = b.time.Add(time.Second)
	b.useV2("", 500_000, 0, 0)
	requireKnown(t, 0.5, r.sample().CPU)

	b.set(group, "0::/a\n")
	b.time = b.time.Add(time.Second)
	requireKnown(t, 0.5, r.sample().CPU, "no sample: the counters are others")
	b.time = b.time.Add(time.Second)
	b.useV2("a/", 9_750_000, 0, 0)
	requireKnown(t, 0.75, r.sample().CPU)
}

// A clock that does not move makes no sample, whatever was counted.
func TestCPU_NoTimeHasPassed(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	r := b.recorder()
	r.every = 0
	r.sample()
	b.useV2("", 500_000, 0, 0)
	require.False(t, r.sample().CPU.Known)
}

func TestCPU_ReadingSoonAfterOneThatHungIsNotASample(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	r := b.recorder()
	require.EqualValues(t, 1, r.sample().Seq)
	b.time = b.time.Add(defaultEvery/2 - 1)
	require.EqualValues(t, 1, r.sample().Seq)
	b.time = b.time.Add(1)
	b.useV2("", 125_000, 0, 0)
	s := r.sample()
	require.EqualValues(t, 2, s.Seq)
	requireKnown(t, 1, s.CPU)
}

// What makes no sense is unknown, and nothing steps in for it.
func TestCPU_BadFiles(t *testing.T) {
	t.Parallel()
	onV2 := func() *box {
		b := ofQuota("100000 100000\n")
		b.set(v2+"cpuset.cpus.effective", "0-3\n")
		return b
	}
	onV1 := func() *box {
		return newBox(map[string]string{
			group:                     "4:cpu,cpuacct:/a\n3:cpuset:/\n",
			v1 + "a/cpu.cfs_quota_us": "100000\n", v1 + "a/cpu.cfs_period_us": "100000\n",
			v1 + "a/cpu.stat": "nr_periods 0\nnr_throttled 0\n", v1Usage + "a/cpuacct.usage": "0\n",
			v1Cpuset + "cpuset.effective_cpus": "0-3\n",
		})
	}
	for _, c := range []struct {
		box  func() *box
		file string
		bad  []string
	}{
		{onV2, v2 + "cpu.max", []string{
			"", "\n", "max100000\n", "-1 100000\n", "100000\n", "100000 \n", " 100000\n", "0 100000\n", "100000 0\n", "1.5 100000\n", "a b\n",
			"100000 100000 1\n", "9223372036854775808 100000\n", "\x00\n",
		}},
		{onV2, v2 + "cpu.stat", []string{
			"", "\n", "usage_usec\n", "usage_usec -1\n", "usage_usec 1.5\n", "user_usec 5\n", "usage_usec 9223372036854775807\n",
			"usage_usec 5\nnr_periods x\nnr_throttled 0\n", "usage_usec 5\nnr_periods 0\nnr_throttled -1\n",
		}},
		{onV2, v2 + "cpuset.cpus.effective", []string{
			" \n", "a\n", "-\n", "0-\n", "-3\n", "3-0\n", "0-3-5\n", "0,,1\n", ",\n", "0 1\n", "0-65536\n", "-1\n", "0-65535,0-65535\n",
		}},
		{onV1, v1 + "a/cpu.cfs_quota_us", []string{"", "-2\n", "0\n", "max\n", "1e5\n"}},
		{onV1, v1 + "a/cpu.cfs_period_us", []string{"", "0\n", "-1\n", "x\n"}},
		{onV1, v1Usage + "a/cpuacct.usage", []string{"", "x\n", "-5\n", "9223372036854775808\n", "1\n2\n"}},
		{onV1, v1 + "a/cpu.stat", []string{"nr_periods x\nnr_throttled 0\n", "nr_periods 1\nnr_throttled \n"}},
		{onV1, v1Cpuset + "cpuset.effective_cpus", []string{"x\n"}},
	} {
		for _, text := range c.bad {
			b := c.box()
			r := b.recorder()
			r.sample()
			require.NotContains(t, b.log.String(), "level=WARN")
			b.set(c.file, text)
			for range 3 {
				b.time = b.time.Add(time.Second)
				require.False(t, r.sample().CPU.Known, "%s: %q", c.file, text)
			}
			warnings := b.logged("level=WARN")
			require.Len(t, warnings, 1, "%s: %q: once per cause", c.file, text)
			require.Contains(t, warnings[0], "/sys/fs/cgroup/", "it names the file")
			require.Contains(t, warnings[0], "signal=CPU")
			require.Less(t, len(warnings[0]), 400)
		}
	}
}

// A fault of the machine is not taken for a sign that there is no container.
func TestCPU_FaultsOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{group, v2 + "cpu.max", v2 + "cpu.stat", v2 + "cpuset.cpus.effective"} {
		b := ofQuota("100000 100000\n")
		b.set(v2+"cpuset.cpus.effective", "0-3\n")
		faulty := &faultyFS{FS: b.files}
		r := b.recorder()
		r.machine.files.Root = faulty
		r.sample()
		faulty.name, faulty.err = name, syscall.EIO
		b.time = b.time.Add(time.Second)
		require.False(t, r.sample().CPU.Known, name)
		require.Contains(t, b.log.String(), "reading /"+name+": ")

		faulty.name = ""
		b.time = b.time.Add(time.Second)
		b.useV2("", 1_000_000, 0, 0)
		requireKnown(t, 0.5, r.sample().CPU, "over the two seconds since it was last read")
	}
}

func TestCPU_FilesThatMayNotBeReadAreNotThere(t *testing.T) {
	t.Parallel()
	b := ofQuota("100000 100000\n")
	r := b.recorder()
	r.machine.files.Root = &faultyFS{FS: b.files, name: v2 + "cpu.stat", err: fs.ErrPermission}
	r.sample()
	b.time, b.used = b.time.Add(time.Second), 2*time.Second
	requireKnown(t, 0.25, r.sample().CPU)
	require.Equal(t, process, *r.source.Load())
}

func TestCPU_NobodyTells(t *testing.T) {
	t.Parallel()
	b := newBox(nil)
	b.unread = true
	r := b.recorder()
	for range 10 {
		require.False(t, r.sample().CPU.Known)
		b.time = b.time.Add(time.Second)
	}
	require.Nil(t, r.source.Load())
	require.Contains(t, b.log.String(), `level=INFO msg="leapgate: a signal of the load could not be read; each cause is logged once" error="this machine does not tell it" signal=CPU`)
}

// faultyFS is a machine with one file that cannot be opened.
type faultyFS struct {
	fs.FS
	name string
	err  error
}

func (f *faultyFS) Open(name string) (fs.File, error) {
	if name == f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.err}
	}
	return f.FS.Open(name)
}
