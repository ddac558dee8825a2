package rulefile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func BenchmarkParse(b *testing.B) {
	var rules leapgate.Rules
	for i := range 1000 {
		rules.Flow = append(rules.Flow, flow.Rule{ID: fmt.Sprint("r", i), Resource: fmt.Sprint("GET /", i), Threshold: 100, Mode: rule.Shadow})
	}
	yaml, err := YAML(rules)
	require.NoError(b, err)
	json, err := JSON(rules)
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		text []byte
	}{{"rules.yaml", yaml}, {"rules.json", json}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(c.name, c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
