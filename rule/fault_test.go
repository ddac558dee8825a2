package rule

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestFault_Text(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{
			Fault{Kind: "flow", Index: 3, ID: "orders-qps", Resource: "GET /orders", Field: "Threshold", Value: -1.5, Want: "a finite number of at least 0"},
			`flow rule 3 ("orders-qps" on "GET /orders"): Threshold is -1.5; want a finite number of at least 0`,
		},
		{
			Fault{Kind: "flow", Resource: "GET /orders", Field: "Interval", Value: -time.Second, Want: "1ms to 24h0m0s"},
			`flow rule 0 (on "GET /orders"): Interval is -1s; want 1ms to 24h0m0s`,
		},
		{
			Fault{Kind: "flow", Index: 1, ID: "orders-qps", Field: "Resource", Value: "", Want: "a name"},
			`flow rule 1 ("orders-qps"): Resource is ""; want a name`,
		},
		{
			Fault{Kind: "isolation", Index: 2, Field: "Resource", Value: "", Want: "a name"},
			`isolation rule 2: Resource is ""; want a name`,
		},
		{
			Fault{Kind: "flow", ID: long, Resource: long + "b", Field: "Resource", Value: long + "bc", Want: "less"},
			`flow rule 0 ("` + long + `" on "` + long + `…"): Resource is "` + long + `…"; want less`,
		},
		{
			Fault{Kind: "flow", ID: "x\" on \"y", Resource: "a\nflow rule 1\x00\x1b[31m", Field: "ID", Value: "\xff\u202e", Want: "less"},
			`flow rule 0 ("x\" on \"y" on "a\nflow rule 1\x00\x1b[31m"): ID is "\xff\u202e"; want less`,
		},
	} {
		require.Equal(t, c.want, c.fault.Error())
	}
}

// Whatever a rule file holds, a fault is one line of bounded length.
func TestFault_TextOfHugeStringsIsShort(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("€", 1<<16), strings.Repeat("\n", 1<<16), strings.Repeat("\xff", 1<<16)} {
		text := (&Fault{Kind: "flow", ID: s, Resource: s, Field: "ID", Value: s, Want: "less"}).Error()
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\n")
		require.Less(t, len(text), 1000)
	}
}

func TestFaults_AreOneErrorPerFault(t *testing.T) {
	t.Parallel()
	first := &Fault{Kind: "flow", Field: "A", Value: 1, Want: "2"}
	second := &Fault{Kind: "flow", Index: 1, Field: "B", Value: 3, Want: "4"}
	err := fmt.Errorf("loading: %w", Faults{first, second})
	require.EqualError(t, err, "loading: flow rule 0: A is 1; want 2\nflow rule 1: B is 3; want 4")
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
	var fault *Fault
	require.ErrorAs(t, err, &fault)
	require.Same(t, first, fault)
	var faults Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 2)
}
