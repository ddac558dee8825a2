package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

// traffic is requests of keys, the busier the lower their number, of a minute.
func traffic(keys int, name func(key int) string) whatif.Source {
	return func(yield func(whatif.Request, error) bool) {
		for i := range 20 * keys {
			at := time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute / time.Duration(20*keys))
			if !yield(whatif.Request{At: at, Resource: "GET /a", Key: name(i * i % keys)}, nil) {
				return
			}
		}
	}
}

func plainName(key int) string { return fmt.Sprint("client-", key) }

func written(t *testing.T, d *Document) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, d.WriteHTML(&b))
	require.NotContains(t, b.String(), "ZgotmplZ", "what the template takes for unsafe")
	require.NotRegexp(t, `(?i)(src|href|url\(|import|fetch|http)s?\s*[=(:]`, b.String(), "nothing is loaded")
	return b.String()
}

func limit(n int64) *int64 { return &n }

func config(n int64) whatif.Config {
	return whatif.Config{
		Rules:  leapgate.Rules{Flow: []flow.Rule{{ID: "all", Resource: "GET /a", Threshold: 100, Interval: time.Minute}}},
		Limits: map[string]rulefile.Limit{"per-client": {Limit: limit(n), Window: time.Minute}},
	}
}

func TestWriteHTML_OfAReport(t *testing.T) {
	t.Parallel()
	report, err := whatif.Run(context.Background(), config(30), traffic(20, plainName))
	require.NoError(t, err)
	html := written(t, &Document{Report: report, Log: &accesslog.Seen{Files: []accesslog.FileSeen{{Name: "a<b>.log"}}, Notes: []string{"a note"}}})
	for _, want := range []string{"What the rules would have blocked", "per-client", "a&lt;b&gt;.log", "a note", "client-0", "Content-Security-Policy", "2024-05-20 00:00:00"} {
		require.Contains(t, html, want)
	}
}

func TestWriteHTML_OfAComparisonAndASuggestion(t *testing.T) {
	t.Parallel()
	comparison, err := whatif.Compare(context.Background(), config(30), config(20), traffic(20, plainName))
	require.NoError(t, err)
	html := written(t, &Document{Comparison: comparison})
	require.Contains(t, html, "Keys worse off")
	require.Contains(t, html, "The rules before")

	suggestion, err := whatif.Suggest(context.Background(), whatif.Config{}, traffic(20, plainName), traffic(30, plainName))
	require.NoError(t, err)
	html = written(t, &Document{Suggestion: suggestion})
	require.Contains(t, html, "Which limit would bother whom")
	require.Contains(t, html, "requests to test it on")
}

// A share is of what it says it is of: those without a key are not in it.
func TestWriteHTML_SharesAreOfRequestsWithKeys(t *testing.T) {
	t.Parallel()
	some := traffic(20, func(key int) string {
		if key%4 == 0 {
			return ""
		}
		return plainName(key)
	})
	suggestion, err := whatif.Suggest(context.Background(), whatif.Config{}, some, nil)
	require.NoError(t, err)
	c := suggestion.Limits[0].Train
	require.Equal(t, []int64{400, 400 - c.Total}, []int64{suggestion.Train.Requests, suggestion.Train.Keyless})
	html := written(t, &Document{Suggestion: suggestion})
	require.Contains(t, html, fmt.Sprintf("blocked %d of %d (%s)", c.Suggested.Blocked, c.Total, whatif.Percent(c.Suggested.Share)))
}

// What comes from clients is text, whatever it is.
func TestWriteHTML_EscapesKeys(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script>"'` + "\u202e\x00`{{.}}"
	report, err := whatif.Run(context.Background(), config(1), traffic(3, func(int) string { return evil }))
	require.NoError(t, err)
	html := written(t, &Document{Report: report})
	require.NotContains(t, html, "<script>alert")
	require.NotContains(t, html, "\u202e")
	require.NotContains(t, html, "<script")
}

func TestWriteHTML_StaysSmall(t *testing.T) {
	t.Parallel()
	c := config(2)
	for i := range 300 {
		c.Rules.Flow = append(c.Rules.Flow, flow.Rule{ID: fmt.Sprint("rule-", i), Resource: "GET /a", Threshold: float64(i), Interval: time.Minute})
	}
	report, err := whatif.Run(context.Background(), c, traffic(100, func(key int) string { return fmt.Sprint(strings.Repeat("long-name-", 20), key) }))
	require.NoError(t, err)
	for i := range report.Rules {
		report.Rules[i].Blocked = 1
		report.Rules[i].Top = report.Traffic.Top
	}
	require.Less(t, len(written(t, &Document{Report: report})), 200_000)
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	report, err := whatif.Run(context.Background(), config(30), traffic(20, plainName))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, (&Document{Report: report}).WriteJSON(&b))
	var back struct {
		Report struct{ Traffic struct{ Requests int } }
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, 400, back.Report.Traffic.Requests)
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, count(n))
	}
	for share, want := range map[float64]string{0: "0 %", 0.00001: "< 0.01 %", 0.0125: "1.25 %", 0.5: "50.0 %", 1: "100.0 %"} {
		require.Equal(t, want, whatif.Percent(share))
	}
}
