package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

const maxName = rule.MaxNameLength // where rule is a variable

func TestParseRules(t *testing.T) {
	t.Parallel()
	texts := []string{"/api=60/1m", "/a=b/c,d=1.5/24h,strict", "/=0/1s", "/=10/1m,per-key"}
	parsed, err := parseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	want := []flow.Rule{
		{Resource: "/api", Threshold: 60, Interval: time.Minute},
		{Resource: "/a=b/c,d", Threshold: 1.5, Interval: 24 * time.Hour, Strict: true},
		{Resource: "/", Threshold: 0, Interval: time.Second},
	}
	rules := parsed.Flow
	for i := range want {
		want[i].ID = texts[i]
		if rules[i] != want[i] {
			t.Errorf("%q is %+v; want %+v", texts[i], rules[i], want[i])
		}
	}
	if perKey := (param.Rule{ID: texts[3], Resource: "/", Arg: "client", Threshold: 10, Interval: time.Minute}); len(rules) != len(want) || len(parsed.Param) != 1 || parsed.Param[0] != perKey {
		t.Errorf("%q is %+v; want %+v", texts[3], parsed.Param, perKey)
	}
	if err := leapgate.Must(leapgate.Config{}).LoadRules(parsed); err != nil {
		t.Errorf("the gate refuses them: %v", err)
	}
}

func TestParseRules_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parseRules([]string{"api=-1/soon,lax", "/ok=1/1s", "/api", "/a=many", "/b=nan/505ms", "/c=1/1s,", "/d=inf/25h", "/ok=1/1s"})
	const want = `-rule "api=-1/soon,lax": the prefix is "api"; want one that begins with /, and a rule of at most 1024 bytes
-rule "api=-1/soon,lax": the threshold is "-1"; want a number of at least 0, such as 60
-rule "api=-1/soon,lax": the interval is "soon"; want 10ms to 24h in steps of 10ms, such as 1m
-rule "api=-1/soon,lax": the option is "lax"; want strict or per-key, or none and no comma
-rule "/api" has no =; want prefix=threshold/interval, such as /api=60/1m
-rule "/a=many": the threshold is "many"; want a number of at least 0, such as 60
-rule "/a=many" has no interval; want threshold/interval, such as 60/1m
-rule "/b=nan/505ms": the threshold is "nan"; want a number of at least 0, such as 60
-rule "/b=nan/505ms": the interval is "505ms"; want 10ms to 24h in steps of 10ms, such as 1m
-rule "/c=1/1s,": the option is ""; want strict or per-key, or none and no comma
-rule "/d=inf/25h": the threshold is "inf"; want a number of at least 0, such as 60
-rule "/d=inf/25h": the interval is "25h"; want 10ms to 24h in steps of 10ms, such as 1m
-rule "/ok=1/1s" is given twice; want it once`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("/api=60/1m")
	f.Add("/a=b/c,d=1.5/24h,strict")
	f.Add("api=-1/soon,lax")
	f.Add("/=1e999/1s")
	f.Add("/=0x1p-2/0.0000001h")
	f.Add("/" + strings.Repeat("x", 1024) + "=1/1s")
	f.Fuzz(func(t *testing.T, text string) {
		var rules leapgate.Rules
		if err := parseRule(text, &rules); err != nil {
			if rules.Len() != 0 {
				t.Errorf("%q: an error and a rule, %+v", text, rules)
			}
			return
		}
		if len(rules.Param) == 1 {
			p := rules.Param[0]
			rules.Flow = append(rules.Flow, flow.Rule{ID: p.ID, Resource: p.Resource, Threshold: p.Threshold, Interval: p.Interval})
		}
		rule := rules.Flow[0]
		// What a gate wants of a rule. (A gate itself would make the coverage of an
		// input differ from run to run, and the fuzzer lose its time on that.)
		if !(rule.Threshold >= 0 && rule.Threshold <= math.MaxFloat64) ||
			rule.Interval < 10*time.Millisecond || rule.Interval > flow.MaxInterval || rule.Interval%(flow.DefaultBuckets*time.Millisecond) != 0 ||
			rule.Resource == "" || len(rule.Resource) > maxName || rule.ID != text || len(rule.ID) > maxName {
			t.Errorf("%q is %+v, which a gate refuses", text, rule)
		}
		if !strings.HasPrefix(text, rule.Resource+"=") || rule.Strict != strings.HasSuffix(text, ",strict") {
			t.Errorf("%q is %+v", text, rule)
		}
	})
}
