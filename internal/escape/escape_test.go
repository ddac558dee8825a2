package escape_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/escape"
)

func TestText(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                   "",
		"GET /orders":        "GET /orders",
		`"ü" \ 日本`:           `"ü" \ 日本`,
		"two\nlines":         `"two\nlines"`,
		"red \x1b[31m":       `"red \x1b[31m"`,
		"backwards \u202egp": `"backwards \u202egp"`,
		"byte \xff":          `"byte \xff"`,
	} {
		require.Equal(t, want, escape.Text(given))
	}
}
