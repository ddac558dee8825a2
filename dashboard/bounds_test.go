package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// answerSize asks, and returns the status, how long the answer is, and how many faults it has.
func answerSize(t *testing.T, d http.Handler, method, path, body string) (status, size, faults int) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost/api/v1/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code, w.Body.Len(), strings.Count(w.Body.String(), `"message":`)
}

// A long question gets a short answer.
func TestFaults_OfAQueryAreFew(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Authorize: ann, Logger: quiet()})
	names := func(n int, value string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%04d%s", i, value))
		}
		return strings.Join(all, "&")
	}
	for _, path := range []string{"resources?", "resource?", "rule?", "limiters?", "about?", "events?", "who?", "rules?"} {
		for _, query := range []string{
			names(1600, ""), names(1600, "=%22"), names(100, strings.Repeat("%00", 40)), strings.Repeat("a=1&", 4000), strings.Repeat("kind=%zz&", 1000) + names(500, ""),
			"kind=" + strings.Repeat("%00", 5000), strings.Repeat("%01", 5000),
		} {
			status, size, faults := answerSize(t, d, http.MethodGet, path+query, "")
			require.Equal(t, http.StatusBadRequest, status, path)
			require.Less(t, size, 24<<10, "%s and %d bytes", path, len(query))
			require.LessOrEqual(t, faults, 17)
		}
		status, size, _ := answerSize(t, d, http.MethodGet, path+names(6000, "=1"), "") // 49 KB
		require.Equal(t, http.StatusRequestURITooLong, status, path)
		require.Less(t, size, 200)
	}
	faults, detail := refused(t, d, http.StatusBadRequest, http.MethodGet, "about?"+names(40, ""), "")
	require.Len(t, faults, 17)
	require.Equal(t, `0015: unknown parameter "0015"; want no parameters`, faults[15])
	require.Equal(t, ": and more", faults[16])
	require.True(t, strings.HasSuffix(detail, `"0015"; want no parameters; and more`), detail)

	// What is needed fits: the longest names, all of them escaped.
	long := strings.Repeat("%FF", 1024)
	refused(t, d, http.StatusNotFound, http.MethodGet, "resource?name="+long, "")
	refused(t, d, http.StatusNotFound, http.MethodGet, "rule?kind=flow&id="+long, "")
}

func TestFaults_OfARuleAreFew(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Authorize: ann, Logger: quiet()})
	var fields []string
	for i := range 4000 {
		fields = append(fields, fmt.Sprintf(`"f%d": 1`, i))
	}
	for _, body := range []string{"{" + strings.Join(fields, ",") + "}", `{"resource": "a", "threshold": 1` + strings.Repeat(`, "x": 1`, 7000) + "}"} {
		for _, kind := range []string{"flow", "isolation"} {
			status, size, faults := answerSize(t, d, http.MethodPost, "rules?kind="+kind, body)
			require.Equal(t, http.StatusUnprocessableEntity, status)
			require.Less(t, size, 24<<10)
			require.Equal(t, 17, faults)
		}
	}
}
