package load

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

// BenchmarkSample is what the sampler does every 250 ms: with the files of this machine, and with
// those of a container, as files on a disk.
func BenchmarkSample(b *testing.B) {
	root := b.TempDir()
	box := ofQuota("50000 100000\n")
	box.set(v2+"cpuset.cpus.effective", "0-3\n")
	box.pressure(v2+"cpu.pressure", 5)
	for name, file := range box.files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, file.Data, 0o444); err != nil {
			b.Fatal(err)
		}
	}
	for name, files := range map[string]cgroup.Files{
		"this machine": cgroup.Machine(),
		"container":    {Root: os.DirFS(root)},
	} {
		b.Run(name, func(b *testing.B) {
			m := thisMachine()
			m.files = files
			r := &recorder{machine: m, every: defaultEvery, source: new(atomic.Pointer[string])}
			r.causes.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
			b.ReportAllocs()
			before, _ := processTime()
			for b.Loop() {
				r.begun = time.Time{}
				r.sample()
			}
			after, _ := processTime()
			b.ReportMetric(float64(after-before)/float64(b.N), "cpu-ns/op") // whatever else the machine does
			b.ReportMetric(100*float64(after-before)/float64(b.N)/float64(defaultEvery), "%core")
		})
	}
}
