package rulefile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/rulefile"
)

// The limits of single values are a mapping, or text as in Go.
func TestParse_ItemsOfAParamRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{vip: 10, "10.0.0.0/8": 100, bot-*: 1, free: -1}`: "vip=10, 10.0.0.0/8=100, bot-*=1, free=-1",
		`{"a,b": 1, "": 2, "c ": 3, x=y: 4}`:               `"a,b"=1, ""=2, "c "=3, x=y=4`,
		`"vip=10, ban=0"`:                                  "vip=10, ban=0",
	} {
		rules, err := rulefile.Parse("r.yaml", []byte("param:\n  - resource: a\n    arg: item\n    threshold: 5\n    items: "+text+"\n"))
		require.NoError(t, err, text)
		require.Equal(t, want, rules.Param[0].Items)
	}
	for _, text := range []string{"5", "[a]", "{a: [1]}", "{a: true}", "{}", `""`} {
		_, err := rulefile.Parse("r.yaml", []byte("param:\n  - resource: a\n    arg: item\n    items: "+text+"\n"))
		require.ErrorContains(t, err, `want a mapping such as {vip: 10, ban: 0}, or text: "vip=10, ban=0"`, text)
	}
	_, err := rulefile.Parse("r.yaml", []byte("param:\n  - resource: a\n    arg: item\n    items: {a: 0.5}\n"))
	require.ErrorContains(t, err, "a limit of -1 to 16777214")
	_, err = rulefile.Parse("r.yaml", []byte("param:\n  - resource: a\n    threshold: 5\n"))
	require.ErrorContains(t, err, "the argument whose values are counted")
}
