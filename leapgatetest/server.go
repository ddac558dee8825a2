package leapgatetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Hang makes a [Server] answer nothing until the client gives up or the test ends.
const Hang = 0

// Server starts a server on the loopback interface that answers each request with the next of the statuses, 200 to 599
// or [Hang], and all further requests with the last one. The server is closed when the test ends. Do not use it in a
// bubble of testing/synctest, where time stands still while a goroutine waits for a real connection.
func Server(t testing.TB, statuses ...int) *httptest.Server {
	t.Helper()
	if len(statuses) == 0 {
		t.Fatal("leapgatetest: the server has no statuses; want some")
	}
	for _, status := range statuses {
		if status != Hang && (status < 200 || status > 599) {
			t.Fatalf("leapgatetest: a status of the server is %d; want 200 to 599, or Hang", status)
		}
	}
	var requests atomic.Int64
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := statuses[min(int(requests.Add(1)), len(statuses))-1]
		if status != Hang {
			w.WriteHeader(status)
			return
		}
		go io.Copy(io.Discard, r.Body) //nolint:errcheck // otherwise the server does not notice that the client leaves
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
