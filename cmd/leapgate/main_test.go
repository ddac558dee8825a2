package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// result is what a run of the program came to.
type result struct {
	code     int
	out, err string
}

func invoke(stdin string, args ...string) result {
	var out, err bytes.Buffer
	code := run(args, strings.NewReader(stdin), &out, &err)
	return result{code, out.String(), err.String()}
}

const goodFile = `flow:
  - id: orders-qps
    resource: GET /orders
    threshold: 100
  - resource: GET /orders
    threshold: 1e6
    interval: 24h
    buckets: 24
    mode: shadow
  - {resource: "GET /*", match: glob, threshold: 50.5, strict: true, origin: other, candidate: 40}
  - {match: default, threshold: 10, strategy: warm-up, warmUpPeriod: 10s}
  - {resource: db, threshold: 20, behavior: pace, maxWait: 500ms, strategy: warm-up, warmUpPeriod: 10s, coldFactor: 4}
  - {resource: db.write, threshold: 20, associated: db.read, mode: off, origin: app1}
  - {resource: mem, threshold: 1000, strategy: memory-adaptive, lowMemory: 512MiB, highMemory: 1610612736, highMemoryThreshold: 10.5, maxWait: 100ms}
  - {resource: "a\nb", threshold: 0.9}
  - {resource: p, threshold: 3, behavior: pace, interval: 1m, strategy: memory-adaptive, lowMemory: 100, highMemory: 1025}
  - {resource: q, threshold: 0, behavior: pace}
  - {resource: r, threshold: 0.5, behavior: pace, maxWait: 5s}
  - {resource: s, threshold: 0.5, strategy: warm-up, warmUpPeriod: 10s}
  - {resource: t, threshold: 2, behavior: pace, strategy: warm-up, warmUpPeriod: 10s}
isolation:
  - {resource: "db\\..*", match: regexp, maxInFlight: 5, maxWait: 1s}
  - {resource: db, maxInFlight: 5}
`

func TestCheck_SaysWhatTheRulesMean(t *testing.T) {
	t.Parallel()
	want := `<standard input>: 13 flow rules, 2 isolation rules, 0 breaker rules, 0 param rules, 0 system rules
ID             RESOURCE                        MEANING
orders-qps     GET /orders                     at most 100 in any aligned 1s of 10 buckets; blocks
GET /orders/2  GET /orders                     at most 1000000 in any aligned 24h of 24 buckets; blocks (shadow: only counts what it would block)
GET /*/1       each like GET /*                from callers that no rule names, at most 50 in any 1s, wherever it begins; blocks; tries 40 beside it
*/1            each without a rule of its own  at most 10 in any aligned 1s of 10 buckets, 3.333 when cold, warm after 10s; blocks
db/1           db                              one every 50ms, one every 200ms when cold, warm after 10s; waits up to 500ms, then blocks
db.write/1     db.write                        from caller app1, none while db.read passes more than 20 per second; blocks (off)
mem/1          mem                             at most 1000 in any aligned 1s of 10 buckets up to 512MiB in use, falling to 10.5 at 1.5GiB; blocks, with priority after waiting up to 100ms
"a\nb/1"       "a\nb"                          none; blocks
p/1            p                               one every 20s up to 100B in use, falling to none at 1.001KiB; blocks what comes early
q/1            q                               none; blocks
r/1            r                               none; blocks
s/1            s                               none; blocks
t/1            t                               one every 500ms, one every 1s when cold, warm after 10s; blocks what comes early
db\..*/1       each matching db\..*            at most 5 in flight; waits up to 1s, then blocks
db/1           db                              at most 5 in flight; blocks
`
	const warning = "<standard input>: warning: flow rule on mem: maxWait is 100ms, and only calls with priority wait; is behavior: pace meant?\n"
	require.Equal(t, result{0, want, warning}, invoke(goodFile, "check", "-"))
	require.Equal(t, result{0, "", warning}, invoke(goodFile, "check", "-q", "-"))
	require.Equal(t, result{0, "<standard input>: 1 flow rule, 0 isolation rules, 0 breaker rules, 0 param rules, 0 system rules\nID   RESOURCE  MEANING\nx/1  x         at most 1 in any aligned 1s of 1 bucket; blocks\n", ""},
		invoke("flow: [{resource: x, threshold: 1, buckets: 1}]", "check", "-"))
}

func TestCheck_Limits(t *testing.T) {
	t.Parallel()
	const text = `limits:
  per-tenant: {limit: 60, window: 1m, plans: {acme: 600, partner: -1, banned: 0}}
  "up\nloads": {limit: 5, burst: 2, mode: shadow}
`
	require.Equal(t, result{0, `<standard input>: 0 flow rules, 0 isolation rules, 0 breaker rules, 0 param rules, 0 system rules, 2 limits
LIMIT        MEANING
per-tenant   60 per key in 1m; keys with limits of their own: 3 (1 exempt, 1 blocked)
"up\nloads"  5 per key; 2 at once; mode shadow
`, ""}, invoke(text, "check", "-"))
	require.Equal(t, result{1, "", "<standard input>:1:21: limit \"a\": limit is -5; want 0 to 2305843009213693951\n"}, invoke("limits: {a: {limit: -5}}", "check", "-"))

	written := invoke(text, "convert", "-json", "-")
	require.Equal(t, 0, written.code)
	back := invoke(written.out, "convert", "-")
	require.Equal(t, result{0, `limits:
  per-tenant:
    limit: 60
    window: 1m
    plans:
      acme: 600
      banned: 0
      partner: -1
  "up\nloads":
    limit: 5
    burst: 2
    mode: shadow
`, ""}, back)
}

func TestCheck_NoRules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# flow: []\n", "---\n", "{}", "flow:\n"} {
		got := invoke(text, "check", "-q", "-")
		require.Equal(t, 1, got.code, "%q", text)
		require.Regexp(t, `^<standard input>(:1:1)?: .+; want .*\[\] if none are meant\n$`, got.err)
	}
	for _, text := range []string{"[]", "flow: []"} { // it was said, and may be a mistake all the same
		require.Equal(t, result{0, "", "<standard input>: warning: there are no rules; nothing is limited\n"}, invoke(text, "check", "-q", "-"))
	}
}

func TestCheck_WarnsOfWhatIsProbablyNotMeant(t *testing.T) {
	t.Parallel()
	got := invoke(`flow:
  - {resource: "GET /*", threshold: 1}
  - {resource: "GET /*", match: glob, threshold: 1}
  - {match: default, resource: "*", threshold: 1}
  - {resource: "GET /orders/{id}", threshold: 1}
  - {id: wait, resource: a, threshold: 1, maxWait: 500ms}
  - {resource: a, threshold: 1, maxWait: 500ms, behavior: pace}
  - {resource: paced, threshold: 1, buckets: 5, behavior: pace}
  - {resource: "GET /a ", threshold: 1}
  - {id: tab, resource: "\tb", threshold: 1}
isolation:
  - {id: "i\n", resource: "^db.*", maxInFlight: 1, maxWait: 1s}
`, "check", "-q", "-")
	require.Equal(t, result{0, "", `<standard input>: warning: flow rule on GET /*: resource is GET /*, and means the resource of that very name; is match: glob or match: regexp meant?
<standard input>: warning: flow rule wait: maxWait is 500ms, and only calls with priority wait; is behavior: pace meant?
<standard input>: warning: flow rule on paced: buckets is 5, and means nothing with behavior: pace; is behavior: reject meant?
<standard input>: warning: flow rule on GET /a : resource is "GET /a ", with blanks at an end, which belong to the name; are they meant?
<standard input>: warning: flow rule tab: resource is "\tb", with blanks at an end, which belong to the name; are they meant?
<standard input>: warning: isolation rule "i\n": resource is ^db.*, and means the resource of that very name; is match: glob or match: regexp meant?
`}, got)

	got = invoke("flow:\n"+strings.Repeat("  - {resource: '*', threshold: 1}\n", 100), "check", "-q", "-")
	require.Equal(t, 0, got.code)
	require.Equal(t, 21, strings.Count(got.err, "\n"))
	require.Contains(t, got.err, "warning: and 80 more\n")
}

func TestCheck_TellsAllFaults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good, bad, gone := filepath.Join(folder, "good.yaml"), filepath.Join(folder, "bad.json"), filepath.Join(folder, "gone.yaml")
	require.NoError(t, os.WriteFile(good, []byte("flow: [{resource: x, threshold: 1}]"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("{\n\t\"flow\": [{\"resource\": \"x\", \"threshold\": -1, \"intervall\": \"1s\"}]\n}"), 0o600))
	got := invoke("", "check", bad, good, gone)
	require.Equal(t, 1, got.code)
	require.Equal(t, bad+":2:42: flow rule on \"x\": threshold is -1; want a finite number of at least 0\n"+
		bad+":2:46: flow rule on \"x\": unknown field \"intervall\"; did you mean interval?\n"+
		gone+": there is no such file or folder\n", got.err)
	require.Equal(t, "\n"+good+": 1 flow rule, 0 isolation rules, 0 breaker rules, 0 param rules, 0 system rules\nID   RESOURCE  MEANING\nx/1  x         at most 1 in any aligned 1s of 10 buckets; blocks\n", got.out)

	// The folder as a whole.
	got = invoke("", "check", folder)
	require.Equal(t, 1, got.code)
	require.Empty(t, got.out)
	require.NoError(t, os.Remove(bad))
	got = invoke("", "check", folder)
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, folder+": 1 flow rule")
}

const sentinelRules = `[{"resource": "a", "count": 5, "grade": 1, "extra": 1}]`

func TestCheck_Sentinel(t *testing.T) {
	t.Parallel()
	got := invoke(sentinelRules, "check", "-")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.out, "a/1  a         at most 5 in any aligned 1s of 10 buckets; blocks")
	require.Equal(t, `<standard input>:1:44: ignored: flow rule on "a": unknown field "extra"`+"\n", got.err)

	got = invoke(`[{"resource": "a", "count": 5, "grade": 1, "clusterMode": true}]`, "check", "-")
	require.Equal(t, 1, got.code, "a rule was left out")
	require.Contains(t, got.err, "skipped")
}

func TestConvert(t *testing.T) {
	t.Parallel()
	got := invoke(sentinelRules, "convert", "-")
	require.Equal(t, 0, got.code)
	require.Equal(t, "flow:\n  - resource: a\n    threshold: 5\n", got.out)
	require.Contains(t, got.err, "ignored")

	got = invoke("flow: [{resource: a, threshold: 5}]", "convert", "-json", "-")
	require.Equal(t, result{0, "{\n  \"flow\": [\n    {\"resource\": \"a\", \"threshold\": 5}\n  ]\n}\n", ""}, got)
	require.True(t, json.Valid([]byte(got.out)))

	got = invoke(`[{"resource": "a", "metricType": 1, "threshold": 5}]`, "convert", "-")
	require.Equal(t, 1, got.code)
	require.Equal(t, "flow: []\n", got.out)

	got = invoke("flow: 5", "convert", "-")
	require.Equal(t, result{1, "", "<standard input>:1:7: flow is a number; want a list of rules\n"}, got)

	for _, args := range [][]string{{"convert"}, {"convert", "a", "b"}} {
		got = invoke("", args...)
		require.Equal(t, 2, got.code)
		require.Contains(t, got.err, "files; want one")
	}
}

func TestConvert_OutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code := run([]string{"convert", "-"}, strings.NewReader("flow: []"), brokenPipe{}, &stderr)
	require.Equal(t, 1, code)
	require.Equal(t, "leapgate convert: broken pipe\n", stderr.String())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
func (brokenPipe) Read([]byte) (int, error)  { return 0, errors.New("no input") }

func TestCheck_InputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"check", "-"}, brokenPipe{}, &stdout, &stderr))
	require.Equal(t, "<standard input>: no input\n", stderr.String())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	require.Equal(t, result{2, "", usage}, invoke(""))
	for _, arg := range []string{"-h", "--help", "-help", "help"} {
		require.Equal(t, result{0, usage, ""}, invoke("", arg))
	}
	for _, c := range commands {
		got := invoke("", c.name, "-h")
		require.Equal(t, 0, got.code)
		require.True(t, strings.HasPrefix(got.out, "Usage: leapgate "+c.name), got.out)
		require.Empty(t, got.err)
		require.Equal(t, got, invoke("", "help", c.name))
		require.Contains(t, usage, "\t"+c.name+" ")

		got = invoke("", c.name, "-nonsense")
		require.Equal(t, 2, got.code)
		require.Empty(t, got.out)
		require.Contains(t, got.err, "leapgate "+c.name+": flag provided but not defined: -nonsense\nRun \"leapgate "+c.name+" -h\" for usage.\n")
	}
	require.Equal(t, result{2, "", "leapgate: unknown command \"x\\x1b\"; want check, convert, replay or version\nRun \"leapgate help\" for usage.\n"}, invoke("", "x\x1b"))
	require.Equal(t, result{2, "", "leapgate check: no file; want at least one\nRun \"leapgate check -h\" for usage.\n"}, invoke("", "check"))
	require.Equal(t, 2, invoke("", "version", "x").code)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "-version", "--version"} {
		got := invoke("", arg)
		require.Equal(t, 0, got.code)
		require.Regexp(t, `^leapgate \S+ `+runtime.Version()+` `+runtime.GOOS+`/`+runtime.GOARCH+"\n(\\S+ v\\S+\n)*$", got.out)
	}
}

// A file name may contain anything except a slash.
func TestErrors_EscapeFileNames(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const evil = "\x1b[2Jevil\u202e"
	log, rules := filepath.Join(folder, evil+".log"), filepath.Join(folder, evil+".yaml")
	require.NoError(t, os.WriteFile(log, []byte("once upon a time\n"), 0o600))
	require.NoError(t, os.WriteFile(rules, []byte("flow: [{resource: x}]"), 0o600))
	none := filepath.Join(folder, evil)
	for _, args := range [][]string{
		{"replay", log},
		{"replay", none},
		{"replay", log, log},
		{"replay", "-rules", none, log},
		{"replay", "-rules", rules, log},
		{"replay", "-html", filepath.Join(none, "x"), log},
		{"replay", "-html", log, log},
		{"replay", "-html", evil, "-json", evil, log},
		{"replay", "-" + evil},
		{"replay", log, "-" + evil},
		{"replay", "-format", evil, log},
		{"check", none},
		{"check", rules},
		{"convert", none},
		{evil},
		{"check", "-" + evil},
	} {
		got := invoke("", args...)
		require.NotZero(t, got.code, args)
		require.NotContains(t, got.err+got.out, "\x1b", "%q", args)
		require.NotContains(t, got.err+got.out, "\u202e", "%q", args)
	}
}
