package leapgatetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Server starts a server on the loopback interface that answers as a script says: the first
// request as the first word, and so on, and all further ones as the last word.
//
//	200 200 503 hang 200
//
// A number is a status, 200 to 599. hang takes the request and answers nothing, until the client
// gives up or the test ends. The server is closed when the test ends. Server fails the test if the
// script is wrong. It is not for a bubble of testing/synctest, where time stands still while anybody
// waits for a real connection: a hang would last for ever.
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
		i := min(int(requests.Add(1)), len(statuses)) - 1
		if statuses[i] != 0 {
			w.WriteHeader(statuses[i])
			return
		}
		go io.Copy(io.Discard, r.Body) //nolint:errcheck // or else nobody would see that the client leaves
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
