package breaker

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// throttleModel is a throttle as it is described, slow and plain: it keeps every request in a list.
type throttleModel struct {
	r        Rule
	requests []struct {
		at       int64
		accepted bool
	}
	sum      int64 // of the stride
	admitted int64 // when it has admitted a call last while it refused some
	calls    []int64
}

func (m *throttleModel) add(at int64, accepted bool) {
	m.requests = append(m.requests, struct {
		at       int64
		accepted bool
	}{at, accepted})
}

func (m *throttleModel) share(now int64) float64 {
	length := int64(m.r.Interval) / int64(m.r.Buckets)
	var requests, accepts int64
	for _, r := range m.requests {
		if floor(r.at, length) > floor(now, length)-int64(m.r.Interval) {
			requests++
			if r.accepted {
				accepts++
			}
		}
	}
	if requests < m.r.MinCalls {
		return 0
	}
	return min(m.r.MaxReject, max(0, (float64(requests)-m.r.K*float64(accepts))/float64(requests+1)))
}

func (m *throttleModel) begin(now int64) bool {
	p := m.share(now)
	if p == 0 {
		return true
	}
	before := m.sum
	m.sum += int64(math.Ceil(p * whole))
	if m.sum/whole != before/whole && now-m.admitted < int64(time.Second) {
		m.add(now, false)
		return false
	}
	m.admitted = now
	return true
}

func TestThrottle_DecidesAsItIsDescribed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &Rule{
			ID: "b", Resource: "a", Behavior: Throttle,
			Buckets:   rapid.IntRange(1, 5).Draw(t, "buckets"),
			MinCalls:  rapid.Int64Range(1, 9).Draw(t, "minCalls"),
			K:         rapid.SampledFrom([]float64{1, 1.1, 1.5, 2, 3}).Draw(t, "k"),
			MaxReject: rapid.SampledFrom([]float64{0.3, 0.9, 1}).Draw(t, "maxReject"),
		}
		r.Interval = time.Duration(r.Buckets) * time.Duration(rapid.Int64Range(1, 900).Draw(t, "bucket")) * time.Millisecond
		var report ruleset.Report
		complete(r, &report)
		now := rapid.Int64Range(0, 1000).Draw(t, "start")*int64(time.Millisecond) + int64(time.Hour)
		c := compile(&ruleset.Env{Now: func() int64 { return now }}, r, "a", nil).(*check)
		m := &throttleModel{r: *r}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				now += rapid.Int64Range(0, 50).Draw(t, "passes") * int64(time.Millisecond)
			case 2:
				now += rapid.Int64Range(0, 1500).Draw(t, "passes long") * int64(time.Millisecond)
			case 3, 4, 5, 6:
				require.InDelta(t, m.share(now), c.Snapshot(now).Effective, 0)
				require.Nil(t, c.Look(now, 1, resource.Caller{}), "shares are decided on when the call begins")
				v := c.Reserve(now, rapid.Int64Range(1, 9).Draw(t, "count"), resource.Caller{})
				require.Equal(t, m.begin(now), v.Refused == nil)
				if v.Refused == nil {
					m.calls = append(m.calls, now)
				} else {
					require.Negative(t, v.Refused.RetryAfter, "nobody knows")
				}
			default:
				if len(m.calls) == 0 {
					continue
				}
				outcome := rapid.SampledFrom([]resource.Outcome{resource.Success, resource.Failure, resource.Failure, resource.Ignored}).Draw(t, "outcome")
				c.Finish(now, 1, time.Duration(now-m.calls[0]), outcome)
				m.calls = m.calls[1:]
				if outcome != resource.Ignored {
					m.add(now, outcome == resource.Success)
				}
			}
		}
	})
}
