package demand

import (
	"bufio"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

const hour = 3600 * second

// recorded returns the times of the busiest hour of a file of ../shared/data, sorted.
func recorded(t *testing.T, file, layout string, cut func(line string) string) (times []int64) {
	t.Helper()
	f, err := os.Open("../../../shared/data/" + file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/data is not there")
	}
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if at, err := time.Parse(layout, cut(lines.Text())); err == nil {
			times = append(times, at.UnixNano())
		}
	}
	require.NoError(t, lines.Err())
	slices.Sort(times)
	begin, end := 0, 0
	for from, to := 0, 0; from < len(times); from++ {
		for to < len(times) && times[to] < times[from]+hour {
			to++
		}
		if to-from > end-begin {
			begin, end = from, to
		}
	}
	return times[begin:end]
}

func stamped(line string) string {
	stamp, _, _ := strings.Cut(line, ",")
	return stamp
}

func logged(line string) string {
	_, rest, _ := strings.Cut(line, "[")
	stamp, _, _ := strings.Cut(rest, "]")
	return stamp
}

func TestRefused_RecordedTraffic(t *testing.T) {
	t.Parallel()
	for _, traffic := range []struct{ file, layout string }{
		{"azure_llm_code.csv", "2006-01-02 15:04:05.9999999"},
		{"azure_llm_conv.csv", "2006-01-02 15:04:05.9999999"},
		{"azure_llm_code.csv+azure_llm_conv.csv", "2006-01-02 15:04:05.9999999"}, // one program that serves both
		{"access.log", "02/Jan/2006:15:04:05 -0700"},
	} {
		t.Run(traffic.file, func(t *testing.T) {
			t.Parallel()
			cut := stamped
			if traffic.file == "access.log" {
				cut = logged
			}
			var times []int64
			for file := range strings.SplitSeq(traffic.file, "+") {
				times = append(times, recorded(t, file, traffic.layout, cut)...)
			}
			slices.Sort(times)
			require.Greater(t, len(times), 300)
			if traffic.file == "access.log" { // in whole seconds: their places within them are drawn
				rng := rand.New(rand.NewPCG(1, 1))
				for i := range times {
					times[i] += rng.Int64N(second)
				}
				slices.Sort(times)
			}
			for _, late := range []time.Duration{5 * time.Millisecond} {
				for _, w := range windows {
					mean := float64(len(times)) / 3600 * w.Interval.Seconds()
					last := int64(-1)
					shares := []float64{0.3, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4}
					if gatetest.Race { // nothing here runs at once
						shares = []float64{2}
					}
					for _, share := range shares {
						if limit := int64(mean * share); limit != last {
							last = limit
							holds(t, times, late, w, limit)
						}
					}
				}
			}
		})
	}
}
