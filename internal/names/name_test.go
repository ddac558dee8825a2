package names_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/rule"
)

func TestCheck_TellsWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	require.NoError(t, names.Check(strings.Repeat("x", rule.MaxNameLength)))
	require.EqualError(t, names.Check(""), "leapgate: bad resource name: it is empty; want 1 to 1024 bytes")
	require.EqualError(t, names.Check(strings.Repeat("x", 2000)),
		`leapgate: bad resource name: "`+strings.Repeat("x", 32)+`"… has 2000 bytes; want 1 to 1024`)
}
