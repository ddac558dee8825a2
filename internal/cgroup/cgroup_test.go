package cgroup_test

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

func TestGroups_PathOfAController(t *testing.T) {
	t.Parallel()
	const (
		hybrid = "12:cpuset:/\n5:cpu,cpuacct:/system.slice/a.service\n1:name=systemd:/user.slice\n0::/system.slice/a.service\n"
		none   = "no path"
	)
	for _, c := range []struct{ name, text, controller, want string }{
		{"version 2", "0::/docker/abc\n", "", "/docker/abc"},
		{"version 2, inside of a container", "0::/\n", "", ""},
		{"version 2, no controller", "0::/a\n", "cpu", none},
		{"both, version 2", hybrid, "", "/system.slice/a.service"},
		{"both, one of two controllers", hybrid, "cpuacct", "/system.slice/a.service"},
		{"both, the root", hybrid, "cpuset", ""},
		{"both, one that is not there", hybrid, "memory", none},
		{"a controller whose name begins alike", "3:cpuset,cpuacct:/a\n", "cpu", none},
		{"version 1 only", "3:cpu:/a\n", "", none},
		{"the first of two", "3:cpu:/a\n4:cpu:/b\n", "cpu", "/a"},
		{"colons in the path", "0::/a:b::c\n", "", "/a:b::c"},
		{"a slash at the end", "0::/a/\n", "", "/a"},
		{"no end of the line", "0::/a", "", "/a"},
		{"a path that is none", "0::a\n", "", none},
		{"no path", "0::\n", "", none},
		{"no colons", "0\n/a\n\n:\n", "", none},
		{"a controller without a name", "0:cpu:/a\n7::/b\n", "", none},
		{"removed meanwhile", "0::/a (deleted)\n", "", "/a (deleted)"},
		{"nothing", "", "", none},
	} {
		path, ok := cgroup.Groups(c.text).Of(c.controller)
		if !ok {
			require.Empty(t, path, c.name)
			path = none
		}
		require.Equal(t, c.want, path, c.name)
	}
}

// Whatever the file says, the parents of a path end at the root.
func FuzzGroups(f *testing.F) {
	f.Add("0::/a/b\n5:cpu,cpuacct:/c\n", "cpu")
	f.Add("0::/../../etc\n", "")
	f.Add("0:://\n\x00:\xff:/\n", "\xff")
	f.Fuzz(func(t *testing.T, text, controller string) {
		path, ok := cgroup.Groups(text).Of(controller)
		if !ok || path == "" {
			require.Empty(t, path)
			return
		}
		require.True(t, strings.HasPrefix(path, "/"))
		require.NotContains(t, path, "\n")
	})
}

func TestFiles_OfAMachineThatHasNone(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]cgroup.Files{"no files at all": {}, "an empty tree": {Root: fstest.MapFS{}}} {
		groups, err := files.Groups()
		require.NoError(t, err, name)
		require.Empty(t, groups, name)
		require.False(t, files.Has("sys/fs/cgroup"), name)
		_, err = files.Read("sys/fs/cgroup/cpu.stat")
		require.True(t, cgroup.Absent(err), name)
		require.EqualError(t, err, "reading /sys/fs/cgroup/cpu.stat: file does not exist", name)
	}
}

// A path that leads out of the tree, or that is none, is not there.
func TestRead_PathsOfNoFile(t *testing.T) {
	t.Parallel()
	files := cgroup.Files{Root: fstest.MapFS{"etc/passwd": {}, "sys/fs/cgroup/a/cpu.stat": {Data: []byte("a")}}}
	for _, name := range []string{
		"sys/fs/cgroup/../../../etc/passwd", "sys/fs/cgroup/a/../a/cpu.stat", "/sys/fs/cgroup/a/cpu.stat", "sys/fs/cgroup//cpu.stat",
		"sys/fs/cgroup/\xff/cpu.stat", "sys/fs/cgroup/a/", "",
	} {
		_, err := files.Read(name)
		require.True(t, cgroup.Absent(err), name)
		require.False(t, files.Has(name), name)
	}
	text, err := files.Read("sys/fs/cgroup/a/cpu.stat")
	require.NoError(t, err)
	require.Equal(t, "a", text)
}

// given is a file system of one file, whatever its name.
type given struct {
	fs.File
	open error
	read func([]byte) (int, error)
}

func (g given) Open(name string) (fs.File, error) {
	if g.open != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: g.open}
	}
	return g, nil
}

func (g given) Read(p []byte) (int, error) { return g.read(p) }
func (given) Close() error                 { return errors.New("it cannot be closed") }

func TestRead_FilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	endless := func(p []byte) (int, error) { return len(p), nil }
	for _, c := range []struct {
		name   string
		root   given
		want   string
		absent bool
	}{
		{"not ours to read", given{open: fs.ErrPermission}, "reading /f: permission denied", true},
		{"of a folder", given{read: func([]byte) (int, error) { return 0, &fs.PathError{Op: "read", Path: "x", Err: syscall.EISDIR} }}, "reading /f: is a directory", false},
		{"removed meanwhile", given{read: func([]byte) (int, error) { return 0, syscall.ENODEV }}, "reading /f: no such device", false},
		{"switched off", given{open: errors.ErrUnsupported}, "reading /f: unsupported operation", false},
		{"without an end", given{read: endless}, "/f has more than 1048576 bytes; want less", false},
	} {
		text, err := cgroup.Files{Root: c.root}.Read("f")
		require.EqualError(t, err, c.want, c.name)
		require.Empty(t, text, c.name)
		require.Equal(t, c.absent, cgroup.Absent(err), c.name)
	}
	_, err := cgroup.Files{Root: given{open: errors.ErrUnsupported}}.Groups()
	require.ErrorIs(t, err, errors.ErrUnsupported, "that is not a machine without cgroups")
}

func TestRead_FileOfTheLargestSize(t *testing.T) {
	t.Parallel()
	most := strings.Repeat("x", 1<<20)
	files := cgroup.Files{Root: fstest.MapFS{"most": {Data: []byte(most)}, "more": {Data: []byte(most + "x")}, "empty": {}}}
	text, err := files.Read("most")
	require.NoError(t, err)
	require.Len(t, text, 1<<20)
	_, err = files.Read("more")
	require.Error(t, err)
	text, err = files.Read("empty")
	require.NoError(t, err)
	require.Empty(t, text)
}

// A file that comes in pieces, as slow ones do, is read to its end.
func TestRead_InPieces(t *testing.T) {
	t.Parallel()
	left := "usage_usec 12\n"
	text, err := cgroup.Files{Root: given{read: func(p []byte) (n int, err error) {
		if left == "" {
			return 0, io.EOF
		}
		n = copy(p[:1], left)
		left = left[n:]
		return n, nil
	}}}.Read("f")
	require.NoError(t, err)
	require.Equal(t, "usage_usec 12\n", text)
}

// One reading that hangs, as of a disk that is gone, holds up no other.
func TestRead_ThatHangs(t *testing.T) {
	t.Parallel()
	until, done := make(chan bool), make(chan string)
	files := cgroup.Files{Root: given{read: func(p []byte) (int, error) {
		<-until
		return copy(p, "late"), io.EOF
	}}}
	go func() {
		text, _ := files.Read("f")
		done <- text
	}()
	select {
	case <-done:
		t.Error("it does not hang")
	default:
	}
	require.True(t, cgroup.Files{Root: fstest.MapFS{"f": {}}}.Has("f"))
	close(until)
	require.Equal(t, "late", <-done)
}

// On a real disk: version 1 is often a link to a folder of two controllers.
func TestRead_Links(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount := filepath.Join(dir, "sys/fs/cgroup")
	require.NoError(t, os.MkdirAll(filepath.Join(mount, "cpu,cpuacct"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(mount, "cpu,cpuacct/cpuacct.usage"), []byte("5\n"), 0o600))
	for link, to := range map[string]string{"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct", "gone": "nowhere", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(mount, link)); err != nil {
			t.Skipf("skipped: this system makes no links: %v", err)
		}
	}
	files := cgroup.Files{Root: os.DirFS(dir)}
	text, err := files.Read("sys/fs/cgroup/cpuacct/cpuacct.usage")
	require.NoError(t, err)
	require.Equal(t, "5\n", text)
	require.True(t, files.Has("sys/fs/cgroup/cpu"))
	_, err = files.Read("sys/fs/cgroup/gone/cpuacct.usage")
	require.True(t, cgroup.Absent(err))
	_, err = files.Read("sys/fs/cgroup/loop/cpuacct.usage")
	require.Error(t, err)
	require.False(t, cgroup.Absent(err), "a mount that is broken is told")
	require.False(t, files.Has("sys/fs/cgroup/loop"))
}

func TestValue_OfAKey(t *testing.T) {
	t.Parallel()
	const stat = "usage_usec 12\nnr_periods 3\nnr_periods_more 4\nempty\ntwo 1 2\nnr_periods 5\nlast 6"
	for key, want := range map[string]string{"usage_usec": "12", "nr_periods": "3", "empty": "", "two": "1 2", "last": "6"} {
		value, ok := cgroup.Value(stat, key)
		require.True(t, ok, key)
		require.Equal(t, want, value, key)
	}
	for _, key := range []string{"usage", "nr_periods_", "12", " "} {
		_, ok := cgroup.Value(stat, key)
		require.False(t, ok, key)
	}
}

func TestNumber_NothingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "7": 7, "9223372036854775807": math.MaxInt64} {
		n, err := cgroup.Number("f", text)
		require.NoError(t, err, text)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"", "-1", "+1", " 1", "1 ", "1\n", "1e3", "0x1", "1_000", "max", "9223372036854775808", "18446744073709551616", "١", "NaN"} {
		_, err := cgroup.Number("f", text)
		require.Error(t, err, text)
	}
	_, err := cgroup.Number("sys/fs/cgroup/f", "\x1b[31m"+strings.Repeat("9", 1<<20))
	require.EqualError(t, err, `/sys/fs/cgroup/f has "\x1b[31m`+strings.Repeat("9", 35)+`"; want a number of 0 to 9223372036854775807`)
}

func TestMachine_ThisOne(t *testing.T) {
	t.Parallel()
	groups, err := cgroup.Machine().Groups()
	require.NoError(t, err)
	t.Logf("%q", groups)
}
