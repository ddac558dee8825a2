package sentinel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rulefile"
)

// Nothing makes the importer panic, and what it returns are good rules.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"id": "a", "resource": "b", "tokenCalculateStrategy": 1, "controlBehavior": 1, "threshold": 5, "warmUpPeriodSec": 1, "statIntervalInMs": 3}]`))
	f.Add([]byte(`[{"resource": "b", "lowMemUsageThreshold": 5, "highMemUsageThreshold": 1, "memLowWaterMarkBytes": 1, "memHighWaterMarkBytes": 2, "tokenCalculateStrategy": 2}]`))
	f.Add([]byte(`[{"resource": "a", "count": 5, "grade": 0}, {"resource": "a", "metricType": 0, "threshold": 1e9}]`))
	f.Add([]byte(`[{"resource": "a", "count": 5, "strategy": 1, "refResource": "a"}, {"id": 1, "resource": ".", "threshold": 1, "regex": true}, {"id": 1}]`))
	f.Add([]byte(`[{"resource": "a", "count": 5, "limitApp": "other", "controlBehavior": 3, "clusterMode": true}, null, [1], {}]`))
	f.Add([]byte(`[{"resource": "a", "strategy": 2, "retryTimeoutMs": 3000, "statIntervalMs": 7, "threshold": 1e9, "statSlidingWindowBucketCount": 3, "probeNum": 5}]`))
	f.Add([]byte(`[{"resource": "a", "grade": 0, "count": 86399999.9, "timeWindow": 86400, "minRequestAmount": 1e9, "slowRatioThreshold": 1e-300}]`))
	f.Add([]byte("[{\"resource\": \"a\", \"grade\": 2, \"count\": .inf, \"timeWindow\": .nan, \"slowRatioThreshold\": -.inf}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, losses, err := Parse("s.json", data)
		if err != nil {
			gatetest.RequirePrintable(t, err.Error())
			return
		}
		for _, loss := range losses {
			gatetest.RequirePrintable(t, loss.String())
			require.NotContains(t, loss.String(), "\n")
		}
		require.NoError(t, rules.Validate())
		text, err := rulefile.YAML(rules)
		require.NoError(t, err)
		back, err := rulefile.Parse("r.yaml", text)
		require.NoError(t, err)
		require.Equal(t, rules, back)
	})
}
