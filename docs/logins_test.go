package docs_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// login answers POST /login. Of failed attempts, 5 in 15 minutes are admitted for a user name,
// and 50 for an address.
func login(verify func(user, password string) bool) (http.Handler, error) {
	perAddress, err := limit.NewLog(limit.Config{Name: "address", Limit: 50, Window: 15 * time.Minute})
	if err != nil {
		return nil, err
	}
	perUser, err := limit.NewLog(limit.Config{Name: "user", Limit: 5, Window: 15 * time.Minute})
	if err != nil {
		return nil, err
	}
	protect := leaphttp.Must(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: perAddress}}})
	users := leaphttp.MustChecker(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: perUser}}})

	return protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := strings.ToLower(r.PostFormValue("user")) // as the accounts are looked up
		if !users.Check(w, r, user, 1) {
			return // it has answered
		}
		if !verify(user, r.PostFormValue("password")) {
			http.Error(w, "wrong user name or password", http.StatusUnauthorized)
			return
		}
		if _, err := leaphttp.Refund(w); err != nil { // of both limits
			slog.ErrorContext(r.Context(), "a login was not refunded", "error", err)
		}
		fmt.Fprintln(w, "welcome")
	})), nil
}

func isSecret(_, password string) bool { return password == "secret" }

func form(user, password string) string {
	return url.Values{"user": {user}, "password": {password}}.Encode()
}

var isForm = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}

func attempt(t *testing.T, server *httptest.Server, user, password string) answer {
	t.Helper()
	return send(t, server, http.MethodPost, isForm, form(user, password))
}

func TestLogins_OnlyFailedOnesCount(t *testing.T) {
	t.Parallel()
	h, err := login(isSecret)
	require.NoError(t, err)
	server := start(t, h)
	for range 100 {
		require.Equal(t, 200, attempt(t, server, "alice", "secret").StatusCode)
	}
	for _, name := range []string{"bob", "BOB", "Bob", "bOb", "boB"} {
		require.Equal(t, 401, attempt(t, server, name, "guess").StatusCode)
		require.Equal(t, 200, attempt(t, server, "alice", "secret").StatusCode)
	}
	refused := attempt(t, server, "bob", "secret")
	require.Equal(t, 429, refused.StatusCode, "also with the right password")
	require.NotEmpty(t, refused.Header.Get("Retry-After"))
	require.Equal(t, 200, attempt(t, server, "alice", "secret").StatusCode)

	// Failures and refusals by user name make up the 50 of the address: 6 so far.
	for i := range 44 {
		require.Equal(t, 401, attempt(t, server, fmt.Sprint("made up ", i), "guess").StatusCode)
	}
	require.Equal(t, 429, attempt(t, server, "alice", "secret").StatusCode)
}

func TestLogins_GuessesAtOnceGetNoMoreTries(t *testing.T) {
	t.Parallel()
	var tried atomic.Int64
	h, err := login(func(string, string) bool { tried.Add(1); return false })
	require.NoError(t, err)
	server := start(t, h)
	gatetest.AtOnce(40, func(int) {
		attempt(t, server, "carol", "guess")
	})
	require.EqualValues(t, 5, tried.Load())
}

func TestLogins_TheNameIsFreeAfterTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, err := login(isSecret)
		require.NoError(t, err)
		status := func(password string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader(form("dave", password)))
			r.Header = isForm
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for range 5 {
			require.Equal(t, 401, status("guess"))
		}
		time.Sleep(15*time.Minute - 1)
		require.Equal(t, 429, status("secret"))
		time.Sleep(time.Nanosecond)
		require.Equal(t, 200, status("secret"))
	})
}
