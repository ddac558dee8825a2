package load

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

const (
	group    = "proc/self/cgroup"
	v2       = "sys/fs/cgroup/"
	v1       = "sys/fs/cgroup/cpu/"
	v1Usage  = "sys/fs/cgroup/cpuacct/"
	v1Cpuset = "sys/fs/cgroup/cpuset/"
)

// box is a machine whose files, and whose time, the test sets.
type box struct {
	files      fstest.MapFS
	time       time.Time
	cpus       int
	gomaxprocs int
	used       time.Duration // by the process
	unread     bool          // what the process has used cannot be told
	log        bytes.Buffer
}

func newBox(files map[string]string) *box {
	b := &box{files: fstest.MapFS{}, time: time.Unix(1_700_000_000, 0), cpus: 64, gomaxprocs: 8}
	for name, text := range files {
		b.set(name, text)
	}
	return b
}

func (b *box) set(name, text string) {
	b.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
}

// useV2 sets how many microseconds a cgroup of version 2 has used, and its periods.
func (b *box) useV2(folder string, used, periods, throttled int) {
	b.set(v2+folder+"cpu.stat", fmt.Sprintf(
		"usage_usec %d\nuser_usec 1\nsystem_usec 2\nnice_usec 0\nnr_periods %d\nnr_throttled %d\nthrottled_usec 77\nnr_bursts 0\nburst_usec 0\n",
		used, periods, throttled))
}

func (b *box) pressure(name string, total int) {
	b.set(name, fmt.Sprintf("some avg10=1.88 avg60=1.60 avg300=1.07 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", total))
}

func (b *box) machine() *machine {
	return &machine{
		files:      cgroup.Files{Root: b.files},
		now:        func() time.Time { return b.time },
		cpus:       func() int { return b.cpus },
		gomaxprocs: func() int { return b.gomaxprocs },
		process:    func() (time.Duration, bool) { return b.used, !b.unread },
	}
}

func (b *box) recorder() *recorder {
	r := &recorder{machine: b.machine(), every: defaultEvery, source: new(atomic.Pointer[string])}
	r.causes.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
	return r
}

// logged returns the lines of the log that have a text.
func (b *box) logged(text string) (lines []string) {
	for line := range strings.Lines(b.log.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

func requireKnown(t *testing.T, want float64, s Signal, args ...any) {
	t.Helper()
	require.True(t, s.Known, args...)
	require.InDelta(t, want, s.Raw, 1e-9, args...)
}
