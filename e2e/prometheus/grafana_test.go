//go:build e2e

package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

const dashboardFile = "../../deploy/grafana/leapgate.json"

type grafana struct {
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }

		FieldConfig struct {
			Defaults struct {
				Custom struct{ Stacking struct{ Mode string } }
			}
		}
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

func readDashboard(t *testing.T) (d grafana) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// variables is what Grafana puts in the place of its variables when all are chosen.
var variables = strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$gate", ".*", "$resource", ".*", "$limiter", ".*")

// expressions returns every expression of the dashboard, by the title of its panel.
func (d grafana) expressions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			expression := variables.Replace(target.Expr)
			require.NotContains(t, expression, "$", "an unknown variable")
			all[fmt.Sprintf("%s %d", p.Title, i)] = expression
		}
	}
	return all
}

// metrics returns the names of Leapgate's metrics in an expression.
func metrics(expression string) []string {
	return regexp.MustCompile(`\bleapgate_[a-z_]+`).FindAllString(expression, -1)
}

func TestDashboard_Structure(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	ids := map[int]bool{}
	for i, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels %d", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		if p.Type != "row" {
			require.NotEmpty(t, p.Targets, p.Title)
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, q := range d.Panels[:i] {
			apart := p.GridPos.X >= q.GridPos.X+q.GridPos.W || q.GridPos.X >= p.GridPos.X+p.GridPos.W ||
				p.GridPos.Y >= q.GridPos.Y+q.GridPos.H || q.GridPos.Y >= p.GridPos.Y+p.GridPos.H
			require.True(t, apart, "%q lies on %q", p.Title, q.Title)
		}
	}
}

// The types are those of Grafana itself.
func TestDashboard_Types(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("skipped: there is no npm, so the types of the dashboard are not checked")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("package.json", `{"private": true, "type": "module"}`)
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
		"@grafana/schema@13.2.3", "typescript@5.9.3")
	install.Dir = dir
	if output, err := install.CombinedOutput(); err != nil {
		t.Skipf("skipped: the types of Grafana cannot be had, so those of the dashboard are not checked:\n%s", output)
	}
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var panels struct{ Panels []json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &panels))
	check := `import type { Dashboard, GraphFieldConfig, VizLegendOptions, VizTooltipOptions } from '@grafana/schema';
import type { FieldConfig, Options } from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
// The values of enumerations are written as such.
type Written<T> = T extends string ? T | ` + "`${T}`" + ` : T extends (infer U)[] ? Written<U>[]
  : T extends object ? { [K in keyof T]: Written<T[K]> } : T;
type TimeSeries = { type: 'timeseries'; options: Written<{ legend: VizLegendOptions; tooltip: VizTooltipOptions }>;
  fieldConfig: { defaults: { custom: Written<GraphFieldConfig> } } };
type StateTimeline = { type: 'state-timeline'; options: Written<Options>; fieldConfig: { defaults: { custom: Written<FieldConfig> } } };
export const dashboard: Written<Dashboard> = ` + string(text) + ";\n"
	typed := map[string]string{"timeseries": "TimeSeries", "state-timeline": "StateTimeline"}
	seen := map[string]bool{}
	for i, panel := range panels.Panels {
		var is struct{ Type string }
		require.NoError(t, json.Unmarshal(panel, &is))
		if typed[is.Type] != "" {
			seen[is.Type] = true
			var known struct {
				Type        string `json:"type"`
				Options     any    `json:"options"`
				FieldConfig struct {
					Defaults struct {
						Custom any `json:"custom"`
					} `json:"defaults"`
				} `json:"fieldConfig"`
			}
			require.NoError(t, json.Unmarshal(panel, &known))
			text, err := json.Marshal(known)
			require.NoError(t, err)
			check += fmt.Sprintf("export const p%d: %s = %s;\n", i, typed[is.Type], text)
		}
	}
	require.Len(t, seen, len(typed))
	write("dashboard.ts", check)
	tsc := exec.CommandContext(t.Context(), "node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck",
		"--module", "nodenext", "--moduleResolution", "nodenext", "--target", "es2022", "dashboard.ts")
	tsc.Dir = dir
	output, err := tsc.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// rules returns the expressions of a file of rules, by what they record or alert.
func rules(t *testing.T, file string) (records, alerts map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var groups struct {
		Groups []struct {
			Rules []struct{ Record, Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &groups))
	records, alerts = map[string]string{}, map[string]string{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				records[r.Record] = r.Expr
			} else {
				alerts[r.Alert] = r.Expr
			}
		}
	}
	return records, alerts
}

// 50 passed and 40 blocked reads as 90 wanted, beside the thresholds.
func TestDashboard_ChartsWhatIsWanted(t *testing.T) {
	t.Parallel()
	for _, p := range readDashboard(t).Panels {
		if p.ID != 14 {
			continue
		}
		var results []string
		for _, target := range p.Targets {
			results = append(results, regexp.MustCompile(`result="[a-z]+"`).FindAllString(target.Expr, -1)...)
		}
		require.Equal(t, []string{`result="pass"`, `result="block"`}, results)
		require.Equal(t, "normal", p.FieldConfig.Defaults.Custom.Stacking.Mode)
	}
}
