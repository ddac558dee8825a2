package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/flow"
)

func mustParseRules(t *testing.T, texts ...string) []flow.Rule {
	t.Helper()
	rules, err := parseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func mustReplay(t *testing.T, requests []request, rules []flow.Rule) *outcome {
	t.Helper()
	result, err := replay(requests, rules)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// checkDecisions decides everything again, from a plain list of what was admitted:
// a rule refuses a request if its window holds the threshold already, and at no
// other time.
func checkDecisions(t *testing.T, result *outcome) {
	t.Helper()
	admitted := make(map[string][]time.Time) // by resource
	for _, d := range result.decisions {
		var refuser string
		for _, rule := range result.rules {
			if rule.Resource != d.resource {
				continue
			}
			bucket := rule.Interval / time.Duration(rule.Buckets)
			window := rule.Interval
			if rule.Strict {
				window += bucket
			}
			running := time.Unix(0, d.at.UnixNano()/int64(bucket)*int64(bucket)) // the start of the bucket
			oldest := running.Add(bucket - window)
			held, within := 0, 0
			for _, at := range slices.Backward(admitted[d.resource]) {
				if at.Before(oldest) {
					break
				}
				held++
				if d.at.Sub(at) < rule.Interval {
					within++
				}
			}
			if rule.Strict && d.refusal == nil && within+1 > int(rule.Threshold) {
				t.Fatalf("rule %s admitted %d within %v up to %v", rule.ID, within+1, rule.Interval, d.at)
			}
			if held+1 > int(rule.Threshold) {
				refuser = rule.ID
				break
			}
		}
		switch {
		case d.refusal == nil && refuser != "":
			t.Fatalf("%v %s was admitted; rule %s is beyond its threshold", d.at, d.path, refuser)
		case d.refusal != nil && d.refusal.RuleID != refuser:
			t.Fatalf("%v %s was refused by rule %s; want %q", d.at, d.path, d.refusal.RuleID, refuser)
		}
		if refuser == "" {
			admitted[d.resource] = append(admitted[d.resource], d.at)
		}
	}
}

func TestReplay_MadeUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2024, 5, 20, 23, 50, 0, 0, time.UTC)
	var requests []request
	for range 3000 {
		if random.IntN(4) == 0 {
			at = at.Add(time.Duration(random.IntN(4)) * time.Second)
		}
		path := []string{"/api/orders", "/api/search", "/about", ""}[random.IntN(4)]
		requests = append(requests, request{at, path})
	}
	result := mustReplay(t, requests, mustParseRules(t,
		"/api=22/30s", "/api=9/7s", "/api/search=20/1m,strict", "/api/search=3/1s", "/about=0/1s"))
	checkDecisions(t, result)

	blocked := make(map[string]bool)
	for _, d := range result.decisions {
		if d.refusal != nil {
			blocked[d.refusal.RuleID] = true
		}
	}
	if len(blocked) != len(result.rules) {
		t.Errorf("only %v blocked anything; want all rules to be tried", blocked)
	}
}

func TestReplay_LongestPrefixWins(t *testing.T) {
	at := time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC)
	paths := map[string]string{
		"/api": "/api", "/apiary": "/api", "/api/search": "/api/search", "/api/search/x": "/api/search",
		"/": otherPaths, "": otherPaths, "*": otherPaths,
	}
	var requests []request
	for path := range paths {
		requests = append(requests, request{at, path})
	}
	result := mustReplay(t, requests, mustParseRules(t, "/api=9/1s", "/api/search=9/1s", "/api=99/1m"))
	for _, d := range result.decisions {
		if d.resource != paths[d.path] {
			t.Errorf("%q went to %q; want %q", d.path, d.resource, paths[d.path])
		}
	}
}

// TestReplay_RealLog uses a log that is not part of the project.
func TestReplay_RealLog(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "access.log")
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is not there; it is the nginx log of callumrollo/erddaplogs, 16,275 lines", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, err := readLog(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.requests) != 10_479 || log.malformed != 5_796 || log.backwards != 8 {
		t.Errorf("%d requests, %d malformed, back %d times; want 10479, 5796, 8",
			len(log.requests), log.malformed, log.backwards)
	}

	result := mustReplay(t, log.requests, mustParseRules(t,
		"/erddap/tabledap=60/1m", "/erddap/tabledap=500/24h", "/erddap/subscriptions=2/1s,strict", "/erddap=30/1m,strict"))
	checkDecisions(t, result)
	if peak := busiest(result.decisions, 1)[0]; peak.requests != 8 {
		t.Errorf("the busiest second has %d requests; want 8", peak.requests)
	}
}

const tinyLog = `192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/a HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/b HTTP/1.1" 200 5 "-"
 "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/c HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:17 +0000] "GET /about HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:00:18 +0000] "GET /api/d HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - - [20/May/2024:00:01:18 +0000] "GET /api/e HTTP/1.1" 200 5 "-" "curl"
`

func writeLog(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	var out, errs strings.Builder
	args := []string{"-rule", "/api=2/1m", "-rule", "/api=100/24h,strict", "-top", "2", writeLog(t, tinyLog)}
	if code := run(args, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d, errors %q; want 0, none", code, errs.String())
	}
	const want = `7 lines: 5 requests and 2 malformed
  line 2 has no "referer" and "user agent" in quotes: "192.0.2.1 - - [20/May/2024:00:00:18 +0000] \"GET /api/b HTTP/"
  line 3 has no host, name, user and [time]: " \"curl\""
backward jumps in time: 1; the requests were sorted
2024-05-20 00:00:17 to 2024-05-20 00:01:18, in UTC

rule                 requests  admitted   blocked  first blocked
/api=2/1m                   4         3         1  2024-05-20 00:00:18
/api=100/24h,strict         4         3         0
(other paths)               1         1         0

busiest seconds      requests  admitted   blocked
2024-05-20 00:00:18         3         2         1
2024-05-20 00:00:17         1         1         0
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRun_NothingToReplay(t *testing.T) {
	var out, errs strings.Builder
	if code := run([]string{"-rule", "/api=2/1m", writeLog(t, "")}, &out, &errs); code != 0 {
		t.Errorf("exit code %d, errors %q; want 0", code, errs.String())
	}
	if !strings.HasPrefix(out.String(), "0 lines: 0 requests and 0 malformed\n") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestRun_Faults(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		want []string // in what goes to stderr
	}{
		{"no file", nil, 2, []string{"0 files"}},
		{"two files", []string{"a", "b"}, 2, []string{"2 files"}},
		{"unknown flag", []string{"-x"}, 2, []string{"-x", "usage: replay"}},
		{"all at once", []string{"-rule", "/a", "-rule", "b=1/1s", "-top", "-1"}, 2, []string{`"/a"`, `"b=1/1s"`, "-top is -1", "0 files"}},
		{"file is not there", []string{filepath.Join(t.TempDir(), "none.log")}, 1, []string{"replay: open", "none.log"}},
		{"file is a folder", []string{t.TempDir()}, 1, []string{"replay: read"}},
		{"help", []string{"-h"}, 0, []string{"usage: replay", "-rule", "-top"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errs strings.Builder
			if code := run(test.args, &out, &errs); code != test.code || out.Len() > 0 {
				t.Errorf("exit code %d, output %q; want %d, none", code, out.String(), test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("errors are %q; want %q among them", errs.String(), want)
				}
			}
		})
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestReport_CannotWrite(t *testing.T) {
	if err := replayFile(writeLog(t, tinyLog), nil, 5, full{}); !errors.Is(err, errFull) {
		t.Errorf("got error %v; want %v", err, errFull)
	}
}
