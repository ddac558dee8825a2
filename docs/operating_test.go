package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperating_EachAlertHasItsSection(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("../deploy/prometheus/leapgate.alerts.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("operating.md")
	require.NoError(t, err)
	names := func(pattern string, text []byte) (all []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(found[1]))
		}
		return all
	}
	wanted := names(`(?m)^ *- alert: (\w+)$`, alerts)
	require.Greater(t, len(wanted), 10)
	require.ElementsMatch(t, wanted, names(`(?m)^### (\w+)$`, page))
	for _, section := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		for _, part := range []string{"**Means:**", "**Look at**", "**Do:**"} {
			require.Equal(t, 1, strings.Count(text, part), "%s of %s", part, name)
		}
	}
}
