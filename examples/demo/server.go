package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// An endpoint is something that the server offers. Its pattern in the mux is also
// the name of its resource.
type endpoint struct {
	pattern, path    string
	limit            float64       // calls admitted per second
	fastest, slowest time.Duration // the pretended work of one call
	clients          int           // how many ask for it
}

// A client asks about 18 times a second, so they want twice what is admitted.
var endpoints = []endpoint{
	{"GET /orders", "/orders", 50, 2 * time.Millisecond, 9 * time.Millisecond, 6},
	{"GET /search", "/search", 20, 8 * time.Millisecond, 30 * time.Millisecond, 3},
}

func newGate() (*leapgate.Gate, error) {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return nil, err
	}
	var rules []flow.Rule
	for _, e := range endpoints {
		rules = append(rules, flow.Rule{ID: e.path[1:] + "-qps", Resource: e.pattern, Threshold: e.limit})
	}
	return gate, gate.LoadFlowRules(rules)
}

func newHandler(gate *leapgate.Gate) http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints {
		mux.Handle(e.pattern, guard(gate, e.pattern, e.work))
	}
	return mux
}

// guard lets work answer the calls that the gate admits, and answers the others
// itself.
func guard(gate *leapgate.Gate, resource string, work func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		entry, err := gate.Entry(resource)
		if err != nil {
			refuse(w, err)
			return
		}
		defer entry.Exit()

		if err := work(); err != nil {
			entry.SetError(err) // counts as an exception
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "done")
	}
}

// refuse answers a call that has no entry: 429 if a rule blocked it.
func refuse(w http.ResponseWriter, err error) {
	var blocked *leapgate.BlockError
	if !errors.As(err, &blocked) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// The header knows whole seconds only, and 0 would invite the client at once.
	seconds := max(1, (blocked.RetryAfter+time.Second-1)/time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	http.Error(w, err.Error(), http.StatusTooManyRequests)
}

var errPretended = errors.New("the database is down (pretended)")

// work takes a little time, and fails one time in twenty.
func (e endpoint) work() error {
	time.Sleep(e.fastest + rand.N(e.slowest-e.fastest))
	if rand.N(20) == 0 {
		return errPretended
	}
	return nil
}
