package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// lazyKeeper is content with everything.
type lazyKeeper struct{}

func (lazyKeeper) Source() string                            { return "db" }
func (lazyKeeper) Save(func() (leapgate.Rules, error)) error { return nil } // says yes, does nothing

func TestKeeper_ThatAsksForNothingHasSavedNothing(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	h := dashboard.Handler(g, dashboard.Config{Authorize: func(*http.Request) (string, error) { return "ann", nil }, RuleKeepers: []dashboard.RuleKeeper{lazyKeeper{}}})
	r := httptest.NewRequest("POST", "http://localhost/api/v1/rules?kind=flow&source=db", strings.NewReader(`{"resource":"a","threshold":1}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	require.NotPanics(t, func() { h.ServeHTTP(w, r) })
	require.Equal(t, http.StatusBadGateway, w.Code)
	require.Contains(t, w.Body.String(), "db has not asked for the rules that it should keep")
}
