package param_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

func TestRule_AllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	for text, r := range map[string]param.Rule{
		`Arg is ""; want the name of an argument, of 1 to 1024 bytes, or several with commas between them, each once`: {Arg: "-"},
		`Arg is "a,b,c,d,e"; want at most 4 names`:                                                          {Arg: "a,b,c,d,e"},
		`Arg is "a, a"; want the name of an argument`:                                                       {Arg: "a, a"},
		`Threshold is NaN; want 0 to 16777214`:                                                              {Threshold: math.NaN()},
		`Threshold is -1; want 0 to 16777214`:                                                               {Threshold: -1},
		`Candidate is 1.7e+07; want 0 to 16777214`:                                                          {Candidate: 1.7e7},
		`Threshold is 0.5; want a whole number with Behavior Bucket; for less than that, a longer Interval`: {Threshold: 0.5, Behavior: param.Bucket},
		`Threshold is 2; want 0, since it is for rules without MaxInFlight`:                                 {Threshold: 2, MaxInFlight: 1},
		`Behavior is pace; want reject, since it is for rules without MaxInFlight`:                          {Behavior: param.Pace, MaxInFlight: 1},
		`MaxInFlight is -1; want 1 to 16777214, or 0 for none`:                                              {MaxInFlight: -1},
		`Interval is 1µs; want 1ms to 24h0m0s`:                                                              {Interval: time.Microsecond},
		`Behavior is 3; want Reject (0), Bucket (1) or Pace (2)`:                                            {Behavior: 3},
		`Burst is 2; want 0, since it is for Behavior Bucket`:                                               {Burst: 2},
		`Burst is -1; want 1 to 16777214, or 0 for the limit`:                                               {Burst: -1, Behavior: param.Bucket},
		`MaxWait is 1s; want 0s, since it is for Behavior Pace`:                                             {MaxWait: time.Second},
		`MaxWait is 25h0m0s; want 0 to 24h0m0s`:                                                             {MaxWait: 25 * time.Hour, Behavior: param.Pace},
		`Missing is 3; want Skip (0), Shared (1) or Block (2)`:                                              {Missing: 3},
		`MaxKeys is -1; want 1 to 10000000, or 0 for 100000`:                                                {MaxKeys: -1},
		`MaxKeys is 2; want more than the 2 values that stand in Items`:                                     {MaxKeys: 2, Items: "a=1, b=2, c*=3"},
		`WhenFull is 3; want Evict (0), Deny (1) or Share (2)`:                                              {WhenFull: 3},
		`Top is -1; want 1 to 1000, or 0 for none`:                                                          {Top: -1},
		`Top is 1001; want 1 to 1000, or 0 for none`:                                                        {Top: 1001},
		`Mode is 3; want Enforce (0), Shadow (1) or Off (2)`:                                                {Mode: 3},
		`Items is "a=1"; want nothing with several arguments in Arg`:                                        {Arg: "a,b", Items: "a=1"},
		`Items is "vip"; want such as vip=10`:                                                               {Items: "ok=1, vip"},
		`Items is "vip=x"; want a limit of -1 to 16777214`:                                                  {Items: "vip=x"},
		`Items is "vip=-2"; want a limit of -1 to 16777214`:                                                 {Items: "vip=-2"},
		`Items is "=2"; want a value before the limit`:                                                      {Items: "=2"},
		`Items is "a=2"; want each once`:                                                                    {Items: "a=1, a=2"},
		`Items is "10.9.0.0/8=2"; want each once`:                                                           {Items: "10.0.0.0/8=1, 10.9.0.0/8=2"},
		`Items is "10.0.0.0/33=2"; want a block of addresses such as 10.0.0.0/8 or 2001:db8::/32`:           {Items: "10.0.0.0/33=2"},
		`Items is "\"a=2"; want a closing quote`:                                                            {Items: `"a=2`},
		`Items is "\"a\"b=2"; want such as`:                                                                 {Items: `"a"b=2`},
	} {
		r.ID, r.Resource = "x", "r"
		switch r.Arg {
		case "":
			r.Arg = "item"
		case "-":
			r.Arg = ""
		}
		err := leapgate.Rules{Param: []param.Rule{r}}.Validate()
		require.ErrorIs(t, err, rule.ErrFault, text)
		require.ErrorContains(t, err, `param rule 0 ("x" on "r"): `+text)
	}
	err := leapgate.Rules{Param: []param.Rule{{Resource: "r", Threshold: -1, MaxKeys: -1, Items: "x", Interval: 1, Missing: 9}}}.Validate()
	require.Len(t, strings.Split(err.Error(), "\n"), 6)
}

func TestItems_AreReadAsTheyStand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 9, Items: ` a b = 1 ,"a,b"=2,"bot-*"=3, x=y=4, ""=5, 2001:db8::/32=6, *=7,/path=8, `})
	for value, want := range map[string]int{
		"a b": 1, "a,b": 2, "bot-*": 3, "x=y": 4, "": 5, "2001:db8::1": 6, "2001:DB8:0::2": 6, "2001:db9::": 7, "bot-x": 7, "/path": 8,
	} {
		require.Equal(t, want, w.pass(20, item(value)), value)
	}
}

func TestRule_IsDescribedInOneLine(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]param.Rule{
		"at most 5 in 1s for each item; blocks":                                               {Threshold: 5},
		"none for each item; blocks; 2 with limits of their own":                              {Threshold: 0.9, Items: "a=1, b*=2"},
		"at most 8 at once and 5 in 1m for each item; blocks":                                 {Threshold: 5, Behavior: param.Bucket, Burst: 8, Interval: time.Minute},
		"one every 200ms for each tenant and item; waits up to 1s, then blocks":               {Arg: "tenant,item", Threshold: 5, Behavior: param.Pace, MaxWait: time.Second},
		"at most 2 in flight for each item; blocks; calls without it are counted together":    {MaxInFlight: 2, Missing: param.Shared},
		"any number for each item; blocks none; shows the busiest 5":                          {Top: 5},
		"at most 5 in 1s for each item; blocks; blocks calls without it; tries 2.5 beside it": {Threshold: 5, Candidate: 2.5, Missing: param.Block},
	} {
		r.Resource = "r"
		if r.Arg == "" {
			r.Arg = "item"
		}
		list := kinds.Rules{Param: []param.Rule{r}}
		for _, k := range kinds.All {
			if k.Name() == "param" {
				require.Equal(t, want, k.Describe(&list, 0))
			}
		}
	}
}
