package load

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

const machinePressure = "proc/pressure/cpu"

// stalled is how long something has waited for a processor, up to now.
type stalled struct {
	file  string
	at    time.Time
	total time.Duration
}

// stalled reads the pressure of the cgroup in version 2, else that of the machine.
func (m *machine) stalled(groups cgroup.Groups) (stalled, error) {
	names := make([]string, 0, 3)
	if path, ok := groups.Of(""); ok {
		names = append(names, cgroup.MountV2+path+"/cpu.pressure", cgroup.MountV2+"/cpu.pressure")
	}
	for _, name := range append(names, machinePressure) {
		at := m.now()
		text, err := m.files.Read(name)
		// A kernel may have the file, and have pressure switched off.
		if cgroup.Absent(err) || errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			return stalled{}, err
		}
		total, err := totalOf(name, text)
		return stalled{name, at, total}, err
	}
	return stalled{}, errPressure
}

// totalOf reads "some avg10=1.88 avg60=… avg300=… total=144188066", in microseconds.
func totalOf(name, text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		for _, field := range strings.Fields(line) {
			if value, ok := strings.CutPrefix(field, "total="); ok {
				return duration(name, value, time.Microsecond)
			}
		}
	}
	return 0, fmt.Errorf("/%s has %.80q; want a line some … total=…", name, text)
}
