package leapprom_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rulefile"
)

// origin is a source of rules as it is given.
type origin struct {
	name string
	at   time.Time
	err  error
}

func (o *origin) Source() string               { return o.name }
func (o *origin) LastLoad() (time.Time, error) { return o.at, o.err }

func TestRuleSources_StateOfEach(t *testing.T) {
	t.Parallel()
	good := &origin{name: "a.yaml", at: time.Unix(1_800_000_000, 500_000_000)}
	never := &origin{name: "b\xff.yaml", err: errors.New("there is no such file or folder")}
	registry := registryOf(t, gates.Small(t, gatetest.NewClock(), 10), leapprom.Config{RuleSources: []leapprom.RuleSource{good, never}})
	require.Equal(t, reading{
		`rules_last_load_successful{source="a.yaml"}`:                        1,
		`rules_last_load_successful{source="b` + "\uFFFD" + `.yaml"}`:        0,
		`rules_last_load_timestamp_seconds{source="a.yaml"}`:                 1_800_000_000.5,
		`rules_last_load_timestamp_seconds{source="b` + "\uFFFD" + `.yaml"}`: 0,
	}, scrape(t, registry).only("rules_last"))

	good.err = errors.New("threshold is -1")
	never.at, never.err = time.Unix(1_800_000_060, 0), nil
	r := scrape(t, registry)
	require.Equal(t, 0.0, r[`leapgate_rules_last_load_successful{source="a.yaml"}`])
	require.Equal(t, 1_800_000_000.5, r[`leapgate_rules_last_load_timestamp_seconds{source="a.yaml"}`], "the rules of then are still active")
	require.Equal(t, 1.0, r[`leapgate_rules_last_load_successful{source="b`+"\uFFFD"+`.yaml"}`])
}

func TestRuleSources_RuleFileThatIsRefusedAndGood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("flow: [{resource: a, threshold: 1}]")
	gate := gates.Small(t, gatetest.NewClock(), 10)
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer watcher.Close()
	registry := registryOf(t, gate, leapprom.Config{RuleSources: []leapprom.RuleSource{watcher}})
	successful := func() float64 { return scrape(t, registry).sum("rules_last_load_successful") }
	require.Equal(t, 1.0, successful())
	write("flow: [{resource: a, threshold: -1}]")
	require.Error(t, watcher.Reload())
	require.Equal(t, 0.0, successful())
	write("flow: [{resource: a, threshold: 2}]")
	require.NoError(t, watcher.Reload())
	require.Equal(t, 1.0, successful())
	require.InDelta(t, float64(watcher.Status().Since.UnixNano())/1e9, scrape(t, registry).sum("rules_last_load_timestamp_seconds"), 1e-3)
}

func TestRuleSources_Faults(t *testing.T) {
	t.Parallel()
	var none *rulefile.Watcher
	_, err := leapprom.New(leapgate.Must(leapgate.Config{}), leapprom.Config{RuleSources: []leapprom.RuleSource{
		&origin{name: "a"}, nil, none, &origin{}, &origin{name: "a"},
	}})
	require.ErrorIs(t, err, leapprom.ErrConfig)
	require.EqualError(t, err, `leapprom: bad configuration: RuleSources[1] is nil; want a source of rules
leapprom: bad configuration: RuleSources[2] is nil; want a source of rules
leapprom: bad configuration: RuleSources[3] has no name; want one
leapprom: bad configuration: RuleSources[4] has the name "a", as RuleSources[0]; want another`)
}
