package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/rulefile"
)

func TestChoosing_Rules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("choosing.md")
	require.NoError(t, err)
	parts := strings.Split(string(page), "```yaml\n")[1:]
	require.Len(t, parts, 2)
	for _, part := range parts {
		text, _, _ := strings.Cut(part, "```")
		_, err := rulefile.Parse("rules.yaml", []byte(text))
		require.NoError(t, err)
	}
}
