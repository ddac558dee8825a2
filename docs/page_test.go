package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// withPage adds the page to the routes of a server that only operators reach.
func withPage(mux *http.ServeMux, gate *leapgate.Gate, operator func(*http.Request) (who string, err error)) {
	mux.Handle("/leapgate/", dashboard.Handler(gate, dashboard.Config{
		Authorize: operator, // says who may change rules; nil: nobody
	}))
}

func TestPage_AnswersToItsOwnName(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	mux := http.NewServeMux()
	withPage(mux, gate, nil)
	get := func(url string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, http.NoBody))
		return w.Code
	}
	require.Equal(t, http.StatusOK, get("http://localhost/leapgate/"))
	require.Equal(t, http.StatusMisdirectedRequest, get("http://attacker.example.com/leapgate/"))
}
