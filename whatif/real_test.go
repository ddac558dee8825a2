package whatif_test

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

// realData reads a file of real traffic, which is no part of the project.
func realData(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", name))
	if err != nil {
		t.Skipf("%s, which is real traffic, is not there", name)
	}
	return data
}

const tabledap = "/erddap/tabledap"

// realRequests are those of the real log by time, and in a second by what stands in the line.
func realRequests(t *testing.T) (all []whatif.Request) {
	t.Helper()
	lines := bytes.Split(realData(t, "access.log"), []byte("\n"))
	slices.SortFunc(lines, bytes.Compare)
	combined, ok := accesslog.Named("combined")
	require.True(t, ok)
	for _, line := range lines {
		var r accesslog.Record
		if combined.Parse(line, &r) != nil {
			continue
		}
		q := whatif.Request{At: time.Unix(0, r.At).UTC(), Resource: "(other)", Key: string(r.Client), Status: r.Status}
		if strings.HasPrefix(string(r.Path), tabledap) {
			q.Resource = tabledap
		}
		all = append(all, q)
	}
	slices.SortStableFunc(all, func(a, b whatif.Request) int { return a.At.Compare(b.At) })
	require.Len(t, all, 10_479)
	return all
}

// spread puts the requests of each second evenly over it, in a random order.
func spread(all []whatif.Request) []whatif.Request {
	all = slices.Clone(all)
	rng := rand.New(rand.NewPCG(3, 4))
	for from, to := 0, 0; from < len(all); from = to {
		for to < len(all) && all[to].At.Equal(all[from].At) {
			to++
		}
		same := all[from:to]
		rng.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
		for i := range same {
			same[i].At = same[i].At.Add(time.Second * time.Duration(i) / time.Duration(len(same)))
		}
	}
	return all
}

// held says what is held when a request comes at t of all that was admitted before.
type held func(admitted []int64, t int64) int64

// inBuckets is a count of whole buckets; of one more if it is strict.
func inBuckets(interval time.Duration, strict bool) held {
	bucket := int64(interval / 10)
	return func(admitted []int64, t int64) (n int64) {
		oldest := t/bucket - 9
		if strict {
			oldest--
		}
		for _, at := range slices.Backward(admitted) {
			if at/bucket < oldest {
				break
			}
			n++
		}
		return n
	}
}

// weighted is the window of the clock so far, and what the one before still covers, rounded up.
func weighted(interval time.Duration) held {
	return func(admitted []int64, t int64) int64 {
		length := int64(interval)
		var previous, current int64
		for _, at := range slices.Backward(admitted) {
			switch t/length - at/length {
			case 0:
				current++
			case 1:
				previous++
			}
		}
		return current + (previous*(length-t%length)+length-1)/length
	}
}

// brute decides about all requests of a resource, empty for all, from a list of what was admitted.
func brute(all []whatif.Request, resource string, perKey bool, limit int64, held held) (blocked []bool) {
	admitted := make(map[string][]int64)
	for _, r := range all {
		key := ""
		if perKey {
			key = r.Key
		}
		if resource != "" && r.Resource != resource {
			blocked = append(blocked, false)
			continue
		}
		no := held(admitted[key], r.At.UnixNano()) >= limit
		if !no {
			admitted[key] = append(admitted[key], r.At.UnixNano())
		}
		blocked = append(blocked, no)
	}
	return blocked
}

// wantRule is what a report should have, from lists of who was blocked.
func wantRule(u whatif.RuleReport, all []whatif.Request, blocked []bool) whatif.RuleReport {
	u.Blocked, u.Requests, u.Top, u.WorstMinute = 0, 0, nil, whatif.Minute{}
	keys, requests, minutes := map[string]int64{}, map[string]int64{}, map[time.Time]int64{}
	for i, r := range all {
		requests[r.Key]++
		if u.Resource == "" || r.Resource == u.Resource {
			u.Requests++
		}
		if !blocked[i] {
			continue
		}
		if u.Blocked++; u.Blocked == 1 {
			u.First = r.At
		}
		u.Last = r.At
		keys[r.Key]++
		minute := r.At.Truncate(time.Minute)
		if minutes[minute]++; minutes[minute] > u.WorstMinute.Requests {
			u.WorstMinute = whatif.Minute{At: minute, Requests: minutes[minute]}
		}
	}
	u.Share, u.Keys = float64(u.Blocked)/float64(u.Requests), len(keys)
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b string) int { return cmp.Or(cmp.Compare(keys[b], keys[a]), cmp.Compare(a, b)) }) {
		u.Top = append(u.Top, whatif.KeyCount{Key: key, Requests: requests[key], Blocked: keys[key]})
	}
	if u.Top = u.Top[:min(10, len(u.Top))]; u.Top == nil {
		u.Top = []whatif.KeyCount{}
	}
	return u
}

// checkDemand counts again how much was wanted.
func checkDemand(t *testing.T, u whatif.RuleReport, all []whatif.Request) {
	t.Helper()
	type window struct {
		key    string
		number int64
	}
	windows := map[window]int64{}
	for _, r := range all {
		if u.Resource != "" && r.Resource != u.Resource {
			continue
		}
		at, w := r.At.UnixNano(), window{}
		if u.PerKey {
			w.key = r.Key
		}
		w.number = at / int64(u.Interval)
		windows[w]++
	}
	counts := slices.Sorted(maps.Values(windows))
	rank := func(q float64) int64 { return counts[int(math.Ceil(q*float64(len(counts))))-1] }
	require.Equal(t, whatif.Counts{N: int64(len(counts)), P50: rank(0.5), P99: rank(0.99), P999: rank(0.999), Max: rank(1)}, u.Windows)
}

// Every figure equals that of a plain recount, with the requests of a second at once and spread over it.
func TestRealLog_EqualsABruteForceRecount(t *testing.T) {
	t.Parallel()
	whole := realRequests(t)
	flowOf := func(threshold float64, interval time.Duration, strict bool) whatif.Config {
		return whatif.Config{Rules: leapgate.Rules{Flow: []flow.Rule{{Resource: tabledap, Threshold: threshold, Interval: interval, Strict: strict}}}}
	}
	for _, test := range []struct {
		name     string
		cfg      whatif.Config
		resource string
		perKey   bool
		limit    int64
		interval time.Duration
		held     held
	}{
		{"60 in 1m", flowOf(60, time.Minute, false), tabledap, false, 60, time.Minute, inBuckets(time.Minute, false)},
		{"30 in 1m, strict", flowOf(30, time.Minute, true), tabledap, false, 30, time.Minute, inBuckets(time.Minute, true)},
		{"2 in 1s, strict", flowOf(2, time.Second, true), tabledap, false, 2, time.Second, inBuckets(time.Second, true)},
		{"500 in 24h", flowOf(500, 24*time.Hour, false), tabledap, false, 500, 24 * time.Hour, inBuckets(24*time.Hour, false)},
		{"10 in 1m for each client", whatif.Config{Limits: perKey(10, time.Minute)}, "", true, 10, time.Minute, weighted(time.Minute)},
		{"10 in 1m for each client of a resource", whatif.Config{Rules: leapgate.Rules{Param: []param.Rule{
			{Resource: tabledap, Arg: "client", Threshold: 10, Interval: time.Minute},
		}}}, tabledap, true, 10, time.Minute, weighted(time.Minute)},
	} {
		for placed, all := range map[string][]whatif.Request{"at once": whole, "spread": spread(whole)} {
			t.Run(test.name+" "+placed, func(t *testing.T) {
				t.Parallel()
				r := run(t, test.cfg, all...)
				u := r.Rules[0]
				blocked := brute(all, test.resource, test.perKey, test.limit, test.held)
				require.Equal(t, wantRule(u, all, blocked), u)
				require.Equal(t, u.Blocked, r.Blocked)
				checkDemand(t, u, all)
			})
		}
		t.Run(test.name+" as the log has it", func(t *testing.T) {
			t.Parallel()
			cfg := test.cfg
			cfg.Resolution = time.Second
			r := run(t, cfg, whole...)
			require.Equal(t, test.interval == time.Second, strings.Contains(fmt.Sprint(r.Rules[0].Notes), "too imprecise"))
			require.Contains(t, fmt.Sprint(r.Notes), "One key has 44.4 % of all requests")
		})
	}
}

// The demand of both files of real tokens equals a plain recount, in requests and in tokens.
func TestRealTokens_DemandEqualsARecount(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ requests, busiest, tokens, blocked int64 }{
		"azure_llm_code.csv": {8_819, 585, 18_305_870, 4_534},
		"azure_llm_conv.csv": {19_366, 502, 26_450_535, 5_826},
	} {
		rows, err := csv.NewReader(bytes.NewReader(realData(t, name))).ReadAll()
		require.NoError(t, err)
		source := func(yield func(whatif.Request, error) bool) {
			for _, row := range rows[1:] {
				at, err := time.Parse("2006-01-02 15:04:05.9999999", row[0])
				read, _ := strconv.ParseInt(row[1], 10, 64)
				written, _ := strconv.ParseInt(row[2], 10, 64)
				if !yield(whatif.Request{At: at, Resource: "GET /a", Key: "everyone", Cost: read + written}, err) {
					return
				}
			}
		}
		r, err := whatif.Run(t.Context(), flowRule(300_000, time.Minute), source)
		require.NoError(t, err)
		require.Equal(t, want.requests, r.Traffic.Requests)
		require.Equal(t, []int64{want.busiest, want.tokens, want.blocked}, []int64{r.Traffic.BusiestMinute.Requests, r.Curves[0].Total, r.Blocked})
	}
}
