package rulefile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/isolation"
)

const commentedFile = `# Limits of the shop.
# Ask the team before you change them.

flow: # per second, where nothing is said
  # Agreed with the partners.
  - id: orders # do not rename
    resource: "GET /orders"
    threshold: 100 # was 80
    interval: 60s
    # more to come

  # Search is slow.
  - {id: search, threshold: 5, resource: GET /search} # one line

  # - id: old
  #   resource: x
  - resource: without an id
    threshold: 7

# In flight.
isolation:
  - resource: db # the primary
    maxInFlight: 20

# The end.
`

// loadedRules returns the rules as a gate has them that loaded a file.
func loadedRules(t require.TestingT, text string) leapgate.Rules {
	rules, err := Parse("r.yaml", []byte(text))
	require.NoError(t, err)
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	require.NoError(t, gate.ReplaceRules("r.yaml", rules))
	return gate.Rules()
}

func TestRewrite_KeepsComments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		edit    func(*leapgate.Rules)
		changes []string // lines: what goes, with a -, and what comes, with a +
	}{
		{"nothing", func(*leapgate.Rules) {}, nil},
		{"a value", func(r *leapgate.Rules) { r.Flow[0].Threshold = 250 }, []string{"-    threshold: 100 # was 80", "+    threshold: 250 # was 80"}},
		{"values in braces, to and from the default", func(r *leapgate.Rules) { r.Flow[1].Strict, r.Flow[0].Interval = true, time.Second }, []string{
			"-    interval: 60s", "-  - {id: search, threshold: 5, resource: GET /search} # one line",
			"+    interval: 1s", "+  - {id: search, threshold: 5, strict: true, resource: GET /search} # one line",
		}},
		{"a rule that goes", func(r *leapgate.Rules) { r.Flow = r.Flow[1:] }, []string{
			"-  # Agreed with the partners.", "-  - id: orders # do not rename", `-    resource: "GET /orders"`, "-    threshold: 100 # was 80", "-    interval: 60s", "-    # more to come",
		}},
		{"the last rule of a list that goes", func(r *leapgate.Rules) { r.Isolation = nil }, []string{
			"-isolation:", "-  - resource: db # the primary", "-    maxInFlight: 20", "+isolation: []",
		}},
		{"a rule that comes", func(r *leapgate.Rules) {
			r.Flow = append(r.Flow, flow.Rule{ID: "new", Resource: "404", Threshold: 1.5})
		}, []string{
			"+  - id: new", `+    resource: "404"`, "+    threshold: 1.5",
		}},
		{"the order", func(r *leapgate.Rules) { r.Flow[1], r.Flow[2] = r.Flow[2], r.Flow[1] }, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			rules := loadedRules(t, commentedFile)
			c.edit(&rules)
			data, lost, err := rewrite(rules, "r.yaml", []byte(commentedFile))
			require.NoError(t, err)
			require.False(t, lost, "%s", data)
			back, err := Parse("r.yaml", data)
			require.NoError(t, err)
			require.Equal(t, completed(clean(rules)), completed(back))
			// Rules without an ID get one, which must not change when others go.
			changes := append([]string{
				"-  - resource: without an id", "+  - id: without an id/1", "+    resource: without an id",
			}, c.changes...)
			if len(rules.Isolation) > 0 {
				changes = append(changes, "-  - resource: db # the primary", "+  - id: db/1", "+    resource: db # the primary")
			}
			require.ElementsMatch(t, changes, differences(commentedFile, string(data)))
		})
	}
}

// clean returns rules without their Sources.
func clean(r leapgate.Rules) leapgate.Rules {
	own(&r, "")
	return r
}

// differences returns the lines that are in one of two texts only, wherever they stand. Blank ones
// do not matter.
func differences(before, after string) (lines []string) {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[strings.TrimRight(line, "\n")]--
	}
	for line := range strings.Lines(after) {
		count[strings.TrimRight(line, "\n")]++
	}
	delete(count, "")
	for line, n := range count {
		for range n {
			lines = append(lines, "+"+line)
		}
		for range -n {
			lines = append(lines, "-"+line)
		}
	}
	return lines
}

func TestRewrite_NoRulesAndBack(t *testing.T) {
	t.Parallel()
	text := "# top\nflow: # all\n  - {id: a, resource: a, threshold: 1}\n"
	data, lost, err := rewrite(leapgate.Rules{}, "r.yaml", []byte(text))
	require.NoError(t, err)
	require.False(t, lost)
	require.Equal(t, "# top\nflow: [] # all\n", string(data))
	rules := leapgate.Rules{Flow: []flow.Rule{{ID: "b", Resource: "b", Threshold: 2}}}
	for before, want := range map[string]string{
		string(data):                  "# top\nflow: # all\n  - id: b\n    resource: b\n    threshold: 2\n",
		"isolation: [] # none\n":      "isolation: [] # none\nflow:\n  - id: b\n    resource: b\n    threshold: 2\n",
		"flow: null\nisolation: []\n": "flow:\n  - id: b\n    resource: b\n    threshold: 2\nisolation: []\n",
		"[]":                          "flow:\n  - id: b\n    resource: b\n    threshold: 2\n",
	} {
		after, _, err := rewrite(rules, "r.yaml", []byte(before))
		require.NoError(t, err)
		back, err := Parse("r.yaml", after)
		require.NoError(t, err, "%s", after)
		require.Equal(t, rules, back)
		require.Equal(t, want, string(after))
	}
}

// A gate numbers rules without ID on, where others have the same name. They are the same all the same.
func TestRewrite_RuleWithAnotherNumberInTheGate(t *testing.T) {
	t.Parallel()
	text := "flow:\n  # mine\n  - resource: x\n    threshold: 1\n"
	data, lost, err := rewrite(leapgate.Rules{Flow: []flow.Rule{{ID: "x/2", Resource: "x", Threshold: 1, Interval: time.Second, Buckets: 10}}}, "r.yaml", []byte(text))
	require.NoError(t, err)
	require.False(t, lost)
	require.Equal(t, "flow:\n  # mine\n  - id: x/2\n    resource: x\n    threshold: 1\n", string(data))
}

func TestLosesComments(t *testing.T) {
	t.Parallel()
	rules := leapgate.Rules{Flow: []flow.Rule{{ID: "a", Resource: "a # b", Threshold: 1}}}
	for text, want := range map[string]bool{
		"flow: [{id: a, resource: 'a # b', threshold: 1}]":                false,
		"flow: [{id: a, resource: 'a # b', threshold: 1}] # end":          false,
		"flow:\n- id: a\n  resource: |-\n    a # b\n  threshold: 1 # one": false,
		"# above\n[] # beside": true,
		"flow: [\n  # inside\n  {id: a, # beside\n  resource: 'a # b', threshold: 1}\n  # behind\n]": false,
		"flow: [ # beside\n  {id: a, resource: 'a # b', threshold: 1}]":                              true,
		"---\nflow: [{id: a, resource: 'a # b', threshold: 1}]\n... # end":                           true,
	} {
		require.Equal(t, want, contentOf([]file{{"r.yaml", []byte(text)}}).losesComments(rules), text)
	}
	require.False(t, contentOf([]file{{"r.json", []byte(`{"flow": [{"resource": "a #", "threshold": 1}]}`)}}).losesComments(rules))
}

func TestSave_KeepsCommentsOrTells(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, "# above\nflow:\n  - {id: a, resource: x, threshold: 1} # beside\n")
	w, _, log := still(t, path)
	require.False(t, w.Status().LosesComments)
	require.NoError(t, w.Save(of(2)))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# above\nflow:\n  - {id: a, resource: x, threshold: 2} # beside\n", string(data))
	require.NotContains(t, log.String(), "could not be kept")

	writeFile(t, path, "flow: [ # inside\n  {id: a, resource: x, threshold: 2}\n]\n")
	require.NoError(t, w.Reload())
	require.True(t, w.Status().LosesComments)
	require.NoError(t, w.Save(of(3)))
	require.Contains(t, log.String(), "could not be kept")
	require.False(t, w.Status().LosesComments)
}

// Whatever rules are made of whatever file, it holds them afterwards, and the comments above rules
// that are still there.
func TestRewrite_AnyRulesOfAnyFile(t *testing.T) {
	t.Parallel()
	rule := rapid.Custom(func(t *rapid.T) flow.Rule {
		return flow.Rule{
			ID: rapid.SampledFrom([]string{"", "a", "b", "c", "x/1", "404", "é #"}).Draw(t, "id"), Resource: rapid.SampledFrom([]string{"x", "y", "a: b", "#"}).Draw(t, "resource"),
			Threshold: float64(rapid.IntRange(0, 3).Draw(t, "threshold")), Interval: time.Duration(rapid.IntRange(0, 2).Draw(t, "interval")) * time.Second,
			Strict: rapid.Bool().Draw(t, "strict"),
		}
	})
	place := rapid.Custom(func(t *rapid.T) isolation.Rule {
		return isolation.Rule{ID: rapid.SampledFrom([]string{"", "i", "j"}).Draw(t, "id"), Resource: "x", MaxInFlight: int64(rapid.IntRange(1, 3).Draw(t, "places"))}
	})
	all := rapid.Custom(func(t *rapid.T) leapgate.Rules {
		return leapgate.Rules{Flow: rapid.SliceOfN(rule, 0, 4).Draw(t, "flow"), Isolation: rapid.SliceOfN(place, 0, 2).Draw(t, "isolation")}
	})
	good := func(r leapgate.Rules) bool { return r.Validate() == nil }
	rapid.Check(t, func(t *rapid.T) {
		before := all.Filter(good).Draw(t, "before")
		text, err := YAML(before)
		require.NoError(t, err)
		var commented bytes.Buffer // above each rule, and beside each value
		n := 0
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(line, []byte("  - ")) {
				n++
				commented.WriteString("  # rule " + strings.Repeat("i", n) + "\n")
			}
			commented.Write(bytes.TrimRight(line, "\n"))
			commented.WriteString(" # beside\n")
		}
		after := all.Filter(good).Draw(t, "after")
		if rapid.Bool().Draw(t, "little changes") {
			after = leapgate.Rules{Flow: append([]flow.Rule(nil), before.Flow...), Isolation: before.Isolation}
			if len(after.Flow) > 0 {
				after.Flow[rapid.IntRange(0, len(after.Flow)-1).Draw(t, "which")].Threshold++
			}
		}
		data, lost, err := rewrite(after, "r.yaml", commented.Bytes())
		require.NoError(t, err)
		back, err := Parse("r.yaml", data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, completed(after), completed(back), "%s", data)
		if len(before.Flow) == len(after.Flow) && len(before.Isolation) == len(after.Isolation) && !lost && sameIDs(*completed(before), *completed(after)) {
			require.Equal(t, n, strings.Count(string(data), "# rule "), "%s", data)
		}
	})
}

func sameIDs(a, b kinds.Rules) bool {
	for i := range a.Flow {
		if a.Flow[i].ID != b.Flow[i].ID {
			return false
		}
	}
	for i := range a.Isolation {
		if a.Isolation[i].ID != b.Isolation[i].ID {
			return false
		}
	}
	return true
}
