package memory

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

// files is a machine with these files.
func files(content map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range content {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	return m
}

// on reads from a machine with these files.
func on(root fs.FS) *system { return &system{files: cgroup.Files{Root: root}} }

const maxFile = 1 << 20 // that is read

// pages is so many pages, in bytes.
func pages(n int64) int64 { return n * int64(os.Getpagesize()) }

const (
	statm = "proc/self/statm"
	group = "proc/self/cgroup"

	aStatm = "5000 1000 500 10 0 2000 0\n" // 1,000 pages are resident

	v2      = "sys/fs/cgroup/"
	v1      = "sys/fs/cgroup/memory/"
	v2Stat  = "anon 1\nfile 2\ninactive_anon 3\nactive_anon 4\ninactive_file 300\nactive_file 5\nslab 6\n"
	v1Stat  = "cache 1\nrss 2\ninactive_file 40\nhierarchical_memory_limit 9223372036854771712\ntotal_inactive_anon 3\ntotal_inactive_file 300\ntotal_active_file 5\n"
	v1Lines = "12:cpu,cpuacct:/other\n11:name=systemd:/other\n10:hugetlb,memory:/pod/one\n1:pids:/other\n"
)

func TestSystem_WhichIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		files  map[string]string
		bytes  int64
		source string
	}{
		{"v2, the cgroup of the process", map[string]string{
			group: "0::/pod/one\n", statm: aStatm,
			v2 + "pod/one/memory.current": "1000\n", v2 + "pod/one/memory.stat": v2Stat,
			v2 + "pod/memory.current": "9000\n",
		}, 700, cgroupV2},
		{"v2, a container with a namespace", map[string]string{
			group: "0::/\n", statm: aStatm,
			v2 + "memory.current": "1000\n", v2 + "memory.stat": v2Stat,
		}, 700, cgroupV2},
		{"v2, a container that sees the path of the host", map[string]string{
			group: "0::/kubepods.slice/pod.slice/cri-1.scope\n", statm: aStatm,
			v2 + "memory.current": "1000\n", v2 + "memory.stat": v2Stat,
			v2 + "kubepods.slice/memory.current": "9000\n", // a stranger's
		}, 700, cgroupV2},
		{"v2, a path with colons, spaces and no newline", map[string]string{
			group:                         "0::/a:b c/:",
			v2 + "a:b c/:/memory.current": "1000", v2 + "a:b c/:/memory.stat": "inactive_file 1",
		}, 999, cgroupV2},
		{"v2, a path out of the namespace is that of somebody else", map[string]string{
			group:                 "0::/../other\n",
			v2 + "memory.current": "1000\n", v2 + "other/memory.current": "1\n", "sys/fs/other/memory.current": "2\n",
		}, 1000, cgroupV2},
		{"v2, the process was moved and its cgroup removed", map[string]string{
			group: "0::/gone (deleted)\n", v2 + "memory.current": "1000\n",
		}, 1000, cgroupV2},
		{"v2, a cgroup without the memory controller, in a container", map[string]string{
			group:                       "0::/init\n",
			v2 + "init/cgroup.procs":    "1\n",
			v2 + "memory.current":       "1000\n",
			v2 + "init/memory.pressure": "some\n",
		}, 1000, cgroupV2},
		{"v2, a cgroup without the memory controller, on a host", map[string]string{
			group: "0::/init\n", statm: aStatm,
			v2 + "init/cgroup.procs": "1\n", v2 + "cgroup.controllers": "memory\n",
		}, pages(1000), process},
		{"v2, the root of a host", map[string]string{
			group: "0::/\n", statm: aStatm, v2 + "cgroup.controllers": "memory\n", v2 + "memory.stat": v2Stat,
		}, pages(1000), process},
		{"v2, the cache is larger than the usage", map[string]string{
			group: "0::/\n", v2 + "memory.current": "299\n", v2 + "memory.stat": v2Stat,
		}, 0, cgroupV2},
		{"v2, nothing is used", map[string]string{
			group: "0::/\n", v2 + "memory.current": "0\n", v2 + "memory.stat": "inactive_file 0\n",
		}, 0, cgroupV2},
		{"v2, the largest number", map[string]string{
			group: "0::/\n", v2 + "memory.current": "9223372036854775807\n", v2 + "memory.stat": "inactive_file 9223372036854775806\n",
		}, 1, cgroupV2},
		{"v2, no memory.stat", map[string]string{
			group: "0::/\n", v2 + "memory.current": "1000\n",
		}, 1000, cgroupV2},
		{"v2, an empty memory.stat", map[string]string{
			group: "0::/\n", v2 + "memory.current": "1000\n", v2 + "memory.stat": "",
		}, 1000, cgroupV2},
		{"v2, only keys that resemble it", map[string]string{
			group: "0::/\n", v2 + "memory.current": "1000\n",
			v2 + "memory.stat": "total_inactive_file 1\ninactive_file_2 2\ninactive_anon x\n\ninactive_fil 3\nINACTIVE_FILE 4\n inactive_file 5\n",
		}, 1000, cgroupV2},
		{"v1, the cgroup of the process", map[string]string{
			group: v1Lines + "0::/other\n", statm: aStatm,
			v1 + "pod/one/memory.usage_in_bytes": "1000\n", v1 + "pod/one/memory.stat": v1Stat,
			v1 + "memory.usage_in_bytes": "9000\n", v1 + "release_agent": "\n",
			v2 + "unified/cgroup.procs": "1\n",
		}, 700, cgroupV1},
		{"v1, a container", map[string]string{
			group: v1Lines, statm: aStatm,
			v1 + "memory.usage_in_bytes": "1000\n", v1 + "memory.stat": v1Stat,
		}, 700, cgroupV1},
		{"v1, a container with a namespace", map[string]string{
			group: "4:memory:/\n", v1 + "memory.usage_in_bytes": "1000\n", v1 + "memory.stat": v1Stat,
		}, 700, cgroupV1},
		{"v1, the root of a host", map[string]string{
			group: "4:memory:/\n0::/\n", statm: aStatm,
			v1 + "memory.usage_in_bytes": "9000\n", v1 + "memory.stat": v1Stat, v1 + "release_agent": "\n",
		}, pages(1000), process},
		{"v1, a host where the cgroup is gone", map[string]string{
			group: v1Lines, statm: aStatm,
			v1 + "memory.usage_in_bytes": "9000\n", v1 + "release_agent": "\n",
		}, pages(1000), process},
		{"v1, no memory.stat", map[string]string{
			group: "4:memory:/\n", v1 + "memory.usage_in_bytes": "1000\n",
		}, 1000, cgroupV1},
		{"both, and v2 has the memory", map[string]string{
			group:                                v1Lines + "0::/pod/one\n",
			v2 + "pod/one/memory.current":        "1000\n",
			v1 + "pod/one/memory.usage_in_bytes": "9000\n",
		}, 1000, cgroupV2},
		{"no controller is called memory", map[string]string{
			group: "4:name=memory:/\n3:memoryx,xmemory:/\n2:cpu:/memory\n", statm: aStatm,
			v1 + "memory.usage_in_bytes": "9000\n",
		}, pages(1000), process},
		{"no cgroups are mounted", map[string]string{group: v1Lines + "0::/pod\n", statm: aStatm}, pages(1000), process},
		{"no /proc/self/cgroup", map[string]string{statm: aStatm, v2 + "memory.current": "9000\n"}, pages(1000), process},
		{"an empty /proc/self/cgroup", map[string]string{group: "", statm: aStatm, v2 + "memory.current": "9000\n"}, pages(1000), process},
		{"a malformed /proc/self/cgroup", map[string]string{
			group: "\n\n:\n::\n0\n0:\n0::\n0::relative\n00::/a\n1::/a\n:memory:\n5:memory:relative\n\x00\xff", statm: aStatm,
			v2 + "memory.current": "9000\n", v1 + "memory.usage_in_bytes": "9000\n",
		}, pages(1000), process},
	} {
		s := on(files(c.files))
		require.Empty(t, s.Source(), c.name)
		bytes, err := s.Read()
		require.NoError(t, err, c.name)
		require.Equal(t, c.bytes, bytes, c.name)
		require.Equal(t, c.source, s.Source(), c.name)
	}
}

func TestSystem_NoProc(t *testing.T) {
	t.Parallel()
	for _, s := range []*system{{}, on(fstest.MapFS{}), on(files(map[string]string{group: "0::/\n"}))} {
		bytes, err := s.Read()
		require.NoError(t, err)
		require.Greater(t, bytes, int64(1<<20), "no Go program is smaller")
		require.Less(t, bytes, int64(1<<40))
		require.Equal(t, goRuntime, s.Source())
	}
}

// notNumbers are what no file has where a number belongs.
var notNumbers = []string{
	"", " ", "-1", "-0", "+1", "1.5", "1e3", "1_000", "0x10", "max", "NaN", "10 20", " 10", "10 ", "10\r",
	"9223372036854775808", "18446744073709551615", strings.Repeat("9", 1000),
	"\x00", "10\x00", "é", "\xff",
}

// What is there and makes no sense is an error, and nothing steps in.
func TestSystem_BadNumbersOfACgroup(t *testing.T) {
	t.Parallel()
	fails := func(bad, text string, others map[string]string) {
		t.Helper()
		m := files(others)
		m[bad] = &fstest.MapFile{Data: []byte(text)}
		m[statm] = &fstest.MapFile{Data: []byte(aStatm)}
		s := on(m)
		bytes, err := s.Read()
		require.ErrorContains(t, err, "/"+bad+" has ", "%q", text)
		require.ErrorContains(t, err, "; want a number of 0 to 9223372036854775807", "%q", text)
		require.Less(t, len(err.Error()), 300)
		require.Zero(t, bytes)
		require.Empty(t, s.Source())
	}
	for _, text := range notNumbers {
		fails(v2+"memory.current", text+"\n", map[string]string{group: "0::/\n"})
		fails(v2+"a/memory.stat", "anon 5\ninactive_file "+text+"\n", map[string]string{
			group: "0::/a\n", v2 + "a/memory.current": "1\n", v2 + "memory.current": "1\n",
		})
		fails(v1+"a/memory.usage_in_bytes", text+"\n", map[string]string{
			group: "4:memory:/a\n", v1 + "memory.usage_in_bytes": "1\n",
		})
		fails(v1+"memory.stat", "total_inactive_file "+text, map[string]string{
			group: "4:memory:/\n", v1 + "memory.usage_in_bytes": "1\n",
		})
	}
	for _, text := range []string{"", "\n\n", "10\n\n", "10\n20\n", "\n10\n"} {
		fails(v2+"memory.current", text, map[string]string{group: "0::/\n"})
	}
	fails(v2+"memory.stat", "inactive_file", map[string]string{group: "0::/\n", v2 + "memory.current": "1\n"})
}

func TestSystem_BadNumbersOfTheProcess(t *testing.T) {
	t.Parallel()
	bad := []string{"", "\n", "5000", "5000 \n", "1 -1 1\n", "1 +1\n", "1 1.5\n", "1 x\n", "1 0x10\n", "1 9223372036854775808\n", "1 \x00\n"}
	for _, text := range bad {
		s := on(files(map[string]string{statm: text}))
		bytes, err := s.Read()
		require.ErrorContains(t, err, "/"+statm+" ", "%q", text)
		require.ErrorContains(t, err, "; want ", "%q", text)
		require.Zero(t, bytes)
		require.Empty(t, s.Source())
	}
}

func TestSystem_MorePagesThanBytesCanBe(t *testing.T) {
	t.Parallel()
	most := math.MaxInt64 / int64(os.Getpagesize())
	s := on(files(map[string]string{statm: "1 " + strconv.FormatInt(most, 10) + " 1\n"}))
	bytes, err := s.Read()
	require.NoError(t, err)
	require.Equal(t, pages(most), bytes)

	for _, n := range []int64{most + 1, math.MaxInt64} {
		text := strconv.FormatInt(n, 10)
		s.files.Root = files(map[string]string{statm: "1 " + text + " 1\n"})
		_, err = s.Read()
		require.EqualError(t, err, "/proc/self/statm has "+text+" pages; want at most "+strconv.FormatInt(most, 10))
	}
}

func TestSystem_HugeFiles(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("1", maxFile+1)
	whole := map[string]string{group: "0::/\n", v2 + "memory.current": "1000\n", v2 + "memory.stat": v2Stat}
	for name := range whole {
		m := files(whole)
		m[name] = &fstest.MapFile{Data: []byte(huge)}
		_, err := on(m).Read()
		require.EqualError(t, err, "/"+name+" has more than 1048576 bytes; want less")
	}
	_, err := on(files(map[string]string{statm: huge})).Read()
	require.EqualError(t, err, "/"+statm+" has more than 1048576 bytes; want less")

	long := strings.Repeat("anon 1\n", (maxFile-len(v2Stat))/7) + v2Stat
	whole[v2+"memory.stat"] = long
	bytes, err := on(files(whole)).Read()
	require.NoError(t, err)
	require.EqualValues(t, 700, bytes)
}

// faultyFS is a machine whose files cannot be opened, or cannot be read.
type faultyFS struct {
	fs.FS
	open, read map[string]error
}

func (f *faultyFS) Open(name string) (fs.File, error) {
	if err := f.open[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := f.FS.Open(name)
	if fault := f.read[name]; fault != nil && err == nil {
		return faultyFile{file, fault}, nil
	}
	return file, err
}

type faultyFile struct {
	fs.File
	err error
}

func (f faultyFile) Read(p []byte) (int, error) { return copy(p, "123"), f.err }

// A fault is not taken for a sign that there is no container.
func TestSystem_FaultsOfTheMachine(t *testing.T) {
	t.Parallel()
	onV2 := map[string]string{group: "0::/a\n", v2 + "a/memory.current": "1000\n", v2 + "a/memory.stat": v2Stat, statm: aStatm}
	onV1 := map[string]string{group: "4:memory:/a\n", v1 + "a/memory.usage_in_bytes": "1000\n", v1 + "a/memory.stat": v1Stat, statm: aStatm}
	alone := map[string]string{statm: aStatm}
	for _, c := range []struct {
		files map[string]string
		name  string
	}{
		{onV2, group},
		{onV2, v2 + "a/memory.current"},
		{onV2, v2 + "a/memory.stat"},
		{onV1, group},
		{onV1, v1 + "a/memory.usage_in_bytes"},
		{onV1, v1 + "a/memory.stat"},
		{alone, statm},
	} {
		for _, fault := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ENODEV, syscall.EINTR, syscall.ENOMEM, io.ErrUnexpectedEOF} {
			f := &faultyFS{FS: files(c.files)}
			s := on(f)
			_, err := s.Read()
			require.NoError(t, err)
			before := s.Source()

			f.open = map[string]error{c.name: fault}
			bytes, err := s.Read()
			require.EqualError(t, err, "reading /"+c.name+": "+fault.Error())
			require.ErrorIs(t, err, fault)
			require.Zero(t, bytes)

			f.open, f.read = nil, map[string]error{c.name: fault}
			bytes, err = s.Read()
			require.EqualError(t, err, "reading /"+c.name+": "+fault.Error())
			require.Zero(t, bytes)
			require.Equal(t, before, s.Source(), "of the last good reading")

			f.read = nil
			_, err = s.Read()
			require.NoError(t, err)
		}
	}
}

// What the process may not read makes way for the next, for that will not change.
func TestSystem_ForbiddenFiles(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{syscall.EACCES, syscall.EPERM, fs.ErrPermission, syscall.ENOENT} {
		f := &faultyFS{FS: files(map[string]string{
			group: "4:memory:/a\n0::/a\n", statm: aStatm,
			v2 + "a/memory.current": "1000\n", v1 + "a/memory.usage_in_bytes": "2000\n",
		}), open: map[string]error{}}
		s := on(f)
		read := func(want int64, source string) {
			t.Helper()
			bytes, err := s.Read()
			require.NoError(t, err)
			require.Equal(t, want, bytes)
			require.Equal(t, source, s.Source())
		}
		read(1000, cgroupV2)
		f.open[v2+"a/memory.current"] = fault
		read(2000, cgroupV1)
		f.open[v1+"a/memory.usage_in_bytes"] = fault
		read(pages(1000), process)
		f.open = map[string]error{group: fault}
		read(pages(1000), process)
		f.open[statm] = fault
		_, err := s.Read()
		require.NoError(t, err)
		require.Equal(t, goRuntime, s.Source())
		f.open = nil
		read(1000, cgroupV2)
	}
}

// A service manager may move a process after it has started.
func TestSystem_ProcessIsMoved(t *testing.T) {
	t.Parallel()
	m := files(map[string]string{
		group: "0::/\n", statm: aStatm,
		v2 + "a/memory.current": "1000\n", v2 + "b/memory.current": "2000\n",
	})
	s := on(m)
	for _, c := range []struct {
		group string
		bytes int64
	}{{"0::/\n", pages(1000)}, {"0::/a\n", 1000}, {"0::/b\n", 2000}, {"0::/a\n", 1000}} {
		m[group] = &fstest.MapFile{Data: []byte(c.group)}
		bytes, err := s.Read()
		require.NoError(t, err)
		require.Equal(t, c.bytes, bytes)
	}
}

// The same on a true file system, with what is there on one: links, folders.
func TestSystem_TrueFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/4711/cgroup":          "0::/pod/one\n",
		"proc/4711/statm":           aStatm,
		v2 + "memory.current":       "9000\n",
		v2 + "pod/one/cgroup.procs": "4711\n",
	} {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o444))
	}
	if err := os.Symlink("4711", filepath.Join(root, "proc/self")); err != nil {
		t.Skip(err) // Windows wants a privilege for it
	}
	s := on(os.DirFS(root))
	bytes, err := s.Read()
	require.NoError(t, err)
	require.EqualValues(t, 9000, bytes)

	current := filepath.Join(root, v2, "pod/one/memory.current")
	require.NoError(t, os.WriteFile(current, []byte("1000\n"), 0o444))
	bytes, err = s.Read()
	require.NoError(t, err)
	require.EqualValues(t, 1000, bytes)

	require.NoError(t, os.Remove(current))
	require.NoError(t, os.Mkdir(current, 0o755))
	_, err = s.Read()
	require.ErrorContains(t, err, "reading /sys/fs/cgroup/pod/one/memory.current: ", "it is a folder")

	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/4711/cgroup"), []byte("0::/../pod/one\n"), 0o444))
	bytes, err = s.Read()
	require.NoError(t, err)
	require.EqualValues(t, 9000, bytes, "not the folder that path leads to")
}

func TestSystem_OfThisMachine(t *testing.T) {
	t.Parallel()
	s := newSystem()
	bytes, err := s.Read()
	require.NoError(t, err)
	require.Positive(t, bytes)
	require.Contains(t, []string{cgroupV2, cgroupV1, process, goRuntime}, s.Source())
	require.Equal(t, runtime.GOOS == "linux", s.Source() != goRuntime)
	t.Logf("%d bytes, %s", bytes, s.Source())
}

// Whatever the files hold, a reading is an error, or a number of bytes.
func FuzzSystem(f *testing.F) {
	f.Add("0::/\n", "1000\n", v2Stat, aStatm)
	f.Add(v1Lines, "1000\n", v1Stat, aStatm)
	f.Add("", "", "", "")
	f.Add("0::/..\n4:memory:/./.\n", "-1", "inactive_file\n", "1 2")
	f.Fuzz(func(t *testing.T, groups, usage, stat, resident string) {
		s := on(files(map[string]string{
			group: groups, statm: resident,
			v2 + "memory.current": usage, v2 + "memory.stat": stat,
			v1 + "pod/one/memory.usage_in_bytes": usage, v1 + "pod/one/memory.stat": stat,
		}))
		bytes, err := s.Read()
		if err != nil {
			require.Zero(t, bytes)
			require.Empty(t, s.Source())
			require.NotErrorIs(t, err, fs.ErrNotExist)
			return
		}
		require.GreaterOrEqual(t, bytes, int64(0))
		require.NotEmpty(t, s.Source())
	})
}
