package leapredis

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/rule"
)

// The page shows a limiter as those in memory: its limit as it is now, its mode, and what that
// let through.
func TestDashboard_ShowsTheLimitAndTheModeOfNow(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { require.NoError(t, gate.Close()) })
	l := counter(t, newServer(), Config{Name: "calls", Limit: 5, MaxLimit: 50, Window: time.Hour, Mode: rule.Shadow})
	require.NoError(t, l.SetLimit(7))
	require.Equal(t, 10, passed(t, l, "a", 10))
	page, err := dashboard.New(gate, dashboard.Config{Limiters: []dashboard.Limiter{l}})
	require.NoError(t, err)
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/leapgate/api/v1/limiters", http.NoBody))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	var shown struct {
		Limiters []struct {
			Limits []struct {
				Name  string
				Limit int64
				Mode  string
			}
			Allowed, Refused, WouldRefuse int64
			Away                          bool
		}
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &shown))
	require.Len(t, shown.Limiters, 1)
	one := shown.Limiters[0]
	require.Equal(t, []any{"calls", int64(7), "shadow"}, []any{one.Limits[0].Name, one.Limits[0].Limit, one.Limits[0].Mode})
	require.Equal(t, []int64{10, 0, 3}, []int64{one.Allowed, one.Refused, one.WouldRefuse})
	require.False(t, one.Away)
}
