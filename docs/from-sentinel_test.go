package docs_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/rulefile/sentinel"
	"github.com/leapgate-go/leapgate/system"
)

// What the page says is there is there, for this compiles. The page has the same names.
var _ = []any{
	// names
	leapgate.New,
	leapgate.Default,
	leapgate.Entry,
	(*leapgate.Gate).Entry,
	(*leapgate.Gate).EntryContext,
	(*leapgate.Gate).Do,
	leapgate.Call[int],
	leapgate.CallOr[int],
	(*resource.Entry).Exit,
	(*resource.Entry).SetError,
	leapgate.Config{}.Outcome,
	leapgate.WithCount,
	leapgate.WithArg,
	leapgate.BlockError{},
	(*leapgate.Gate).LoadRules,
	(*leapgate.Gate).EditRules,
	(*leapgate.Gate).Rules,
	(*leapgate.Gate).ReplaceRules,
	rulefile.Watch,
	leapgate.Config{}.OnChange,
	(*leapgate.Gate).Lookup,
	(*resource.Resource).Snapshot,
	leapgate.Config{}.Guards,
	resource.Guard(nil),
	leaphttp.New,
	leaphttp.NewTransport,
	dashboard.Handler,
	leapprom.New,
	flow.Rule{}.Threshold,
	flow.Rule{}.Interval,
	flow.Rule{}.Behavior,
	flow.Rule{}.MaxWait,
	flow.Rule{}.Strategy,
	flow.Rule{}.Associated,
	isolation.Rule{}.MaxInFlight,
	breaker.Rule{}.OpenFor,
	breaker.Rule{}.MinCalls,
	breaker.Rule{}.Probes,
	breaker.Rule{}.SlowAfter,
	param.Rule{}.Arg,
	param.Rule{}.Items,
	param.Rule{}.MaxKeys,
	system.Rule{}.MaxCPU,
	system.Rule{}.MaxQPS,
	system.Rule{}.MaxInFlight,
	system.Rule{}.MaxRT,
	load.Start,
	leapgate.Config{}.Load,
	leapgate.Config{}.Memory,
	leapgate.Config{}.MaxResources,
	// end of names
}

func TestFromSentinel_AllNamesAreThere(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("from-sentinel_test.go")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(source), "// names\n")
	list, _, _ = strings.Cut(list, "// end of names\n")
	list = regexp.MustCompile(`\(nil\)|\[int\]|[(){}*\t]`).ReplaceAllString(list, "")
	compiled := strings.Split(strings.TrimSuffix(list, ",\n"), ",\n")

	page, err := os.ReadFile("from-sentinel.md")
	require.NoError(t, err)
	said := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			line = strings.Join(cells[2:], "|") // the first column is Sentinel's
		} else if !strings.HasPrefix(line, "- ") && !strings.HasPrefix(line, "  ") {
			continue
		}
		for _, name := range regexp.MustCompile("`([a-z]+\\.[A-Z][A-Za-z.]+)`").FindAllStringSubmatch(line, -1) {
			said[name[1]] = true
		}
	}
	var names []string
	for name := range said {
		names = append(names, name)
	}
	require.ElementsMatch(t, compiled, names)
}

func TestFromSentinel_RulesAreConvertedAsShown(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("from-sentinel.md")
	require.NoError(t, err)
	block := func(language string) string {
		_, text, _ := strings.Cut(string(page), "\n```"+language+"\n")
		text, _, _ = strings.Cut(text, "```")
		return text
	}
	rules, losses, err := sentinel.Parse("rules.json", []byte(block("json")))
	require.NoError(t, err)
	text, err := rulefile.YAML(rules)
	require.NoError(t, err)
	require.Equal(t, block("yaml"), string(text))
	require.Len(t, losses, 1)
	require.Contains(t, string(page), "\n```\n"+losses[0].String()+"\n```\n")
}

func ask(context.Context, string) error { return context.DeadlineExceeded }

func query(ctx context.Context, gate *leapgate.Gate, tenant string) error {
	e, err := gate.EntryContext(ctx, "db.query", leapgate.WithArg("tenant", tenant))
	if err != nil {
		return err // errors.Is(err, leapgate.ErrBlocked), if a rule refused it
	}
	defer e.Exit()
	if err := ask(ctx, tenant); err != nil {
		e.SetError(err)
		return err
	}
	return nil
}

func TestFromSentinel_ACallIsCountedWithItsError(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	rules := leapgate.Rules{Param: []param.Rule{{Resource: "db.query", Arg: "tenant", Threshold: 1}}}
	require.NoError(t, gate.LoadRules(rules))
	require.ErrorIs(t, query(t.Context(), gate, "acme"), context.DeadlineExceeded)
	require.EqualValues(t, 1, gate.Lookup("db.query").Snapshot().Exception)
	rules.Param[0].Threshold = 0
	require.NoError(t, gate.LoadRules(rules))
	require.ErrorIs(t, query(t.Context(), gate, "acme"), leapgate.ErrBlocked)
}
