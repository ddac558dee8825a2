package kinds_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// Every field says what it may hold, unless its type does.
func TestFields_HaveARange(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All {
		require.NotEmpty(t, k.Purpose())
		for _, f := range k.Fields() {
			isPlain := f.Type == "enum" || f.Type == "flag"
			require.Equal(t, isPlain, f.Range == "", "%s: %s", k.Name(), f.Name)
			require.False(t, isPlain && f.Default != "", "%s: %s", k.Name(), f.Name)
		}
	}
}

var bounds = regexp.MustCompile(`^(over )?(\S+) to ([^\s;,]+(?:,\d{3})*)(?:[;,]|$)`)

// What is in the range that is told is good, and what is beyond is a fault of that field.
func TestFields_RangesAreThoseThatLoadingChecks(t *testing.T) {
	t.Parallel()
	others := map[string]map[string]string{ // with which all fields but one are good
		"flow":      {"threshold": "1e6", "behavior": "pace", "interval": "24h", "buckets": "1"},
		"isolation": {"maxInFlight": "1000000000", "maxWait": "1s"},
		"breaker":   {"errorRatio": "0.5", "slowRatio": "0.5", "slowAfter": "1s", "buckets": "1"},
		"param":     {"arg": "tenant"},
		"system":    {"maxCPU": "0.5"},
	}
	checked := 0
	for _, k := range kinds.All {
		isFaulty := func(f kinds.Field, value string) bool {
			var rules kinds.Rules
			k.Add(&rules)
			for n, other := range k.Fields() {
				v := others[k.Name()][other.Name]
				switch other.Name {
				case "resource":
					v = "GET /orders"
				case f.Only.Field:
					v = f.Only.Value
				case f.Name:
					v = value
				}
				if v != "" {
					require.Empty(t, k.Read(&rules, 0, n, scalar(other, v)), "%s: %s: %s", k.Name(), other.Name, v)
				}
			}
			for _, fault := range k.Validate(&rules) {
				if fault.Field == f.GoName {
					return true
				}
			}
			return false
		}
		for _, f := range k.Fields() {
			found := bounds.FindStringSubmatch(f.Range)
			if found == nil || f.Type == "text" {
				continue
			}
			least, most := strings.ReplaceAll(found[2], ",", ""), strings.ReplaceAll(found[3], ",", "")
			if field.IsNumber(least) || f.Type == "duration" && least[0] <= '9' {
				if least != "0" && least != "0s" { // which may be none
					require.Equal(t, found[1] != "", isFaulty(f, least), "%s: %s: %s", k.Name(), f.Name, least)
				}
				require.True(t, isFaulty(f, beyond(f, "0", -1)), "%s: %s: negative", k.Name(), f.Name)
			}
			if f.Type == "duration" && least == "1ms" {
				require.True(t, isFaulty(f, "999us"), "%s: %s", k.Name(), f.Name)
			}
			if most[0] <= '9' {
				require.False(t, isFaulty(f, most), "%s: %s: %s", k.Name(), f.Name, most)
				require.True(t, isFaulty(f, beyond(f, most, 1)), "%s: %s: beyond %s", k.Name(), f.Name, most)
				checked++
			}
		}
	}
	require.Greater(t, checked, 40)
}

// scalar is a value as a file has it.
func scalar(f kinds.Field, value string) field.Scalar {
	switch f.Type {
	case "number", "whole", "bytes":
		return field.Scalar{Type: field.Numeral, Text: value}
	default:
		return field.Scalar{Type: field.Text, Text: value}
	}
}

// beyond is a value a little further, up or down.
func beyond(f kinds.Field, bound string, step int) string {
	if f.Type == "duration" {
		d, _ := time.ParseDuration(bound)
		return (d + time.Duration(step)).String()
	}
	n, _ := strconv.Atoi(bound)
	return fmt.Sprint(n + step)
}
