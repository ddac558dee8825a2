package leapgatetest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/atomic"
)

// Server starts a server on the loopback interface that answers as a script says: the first
// request as the first word, and so on, and all further ones as the last word.
//
//	200 200 503 hang 200
//
// A number is a status, 200 to 599. hang takes the request and answers nothing, until the client
// gives up or the test ends. The server is closed when the test ends. Server fails the test if the
// script is wrong.
func Server(t testing.TB, script string) *httptest.Server {
	t.Helper()
	words := strings.Fields(script)
	if len(words) == 0 {
		t.Fatal("leapgatetest: the script of the server is empty; want statuses and hang")
	}
	statuses := make([]int, len(words)) // 0 for hang
	for i, word := range words {
		status, err := strconv.Atoi(word)
		if word != "hang" && (err != nil || status < 200 || status > 599) {
			t.Fatalf("leapgatetest: word %d of the server's script is %q; want a status of 200 to 599, or hang", i+1, word)
		}
		statuses[i] = status
	}
	var requests atomic.Int64
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := min(int(requests.Inc()), len(statuses)) - 1
		if statuses[i] != 0 {
			w.WriteHeader(statuses[i])
			return
		}
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	return server
}
