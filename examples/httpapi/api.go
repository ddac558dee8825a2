package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// customers have API keys, and some of them plans.
var (
	customers = map[string]string{"key-of-ann": "ann", "key-of-bob": "bob", "key-of-carol": "carol"}
	plans     = map[string]string{"carol": "pro"}
)

// newGate makes a gate with a rule that protects the reports, whichever client asks for them.
func newGate() (*leapgate.Gate, error) {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return nil, err
	}
	return gate, gate.LoadFlowRules([]flow.Rule{{ID: "reports", Resource: "GET /reports/{id}", Threshold: 20}})
}

// newAPI is two routes and a health check. All but that are guarded by the gate and by a
// limit for each address; the reports also by a limit for each customer.
func newAPI(gate *leapgate.Gate, limiters *limiters) (http.Handler, error) {
	// A proxy on this machine may name the client for which it asks.
	address, err := leaphttp.NewAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
	if err != nil {
		return nil, err
	}

	// Inside authenticate, so that only keys that were checked are counted.
	reports, err := leaphttp.New(leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: limiters.perKey, Key: leaphttp.FromContext(customer)}},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /time", tellTime)
	mux.Handle("GET /reports/{id}", authenticate(reports(http.HandlerFunc(tellReport))))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	everything, err := leaphttp.New(leaphttp.Config{
		Gate:    gate,
		Mux:     mux,
		Limits:  []leaphttp.Limit{{Limiter: limiters.perAddress, Key: address.Key}},
		Exclude: []string{"/healthz"},
	})
	if err != nil {
		return nil, err
	}
	return everything(mux), nil
}

func tellTime(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, time.Now().UTC().Format(time.TimeOnly))
}

func tellReport(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "report %q for %s\n", r.PathValue("id"), customer(r.Context()))
}

type customerKey struct{}

func customer(ctx context.Context) string {
	name, _ := ctx.Value(customerKey{}).(string)
	return name
}

// authenticate returns the name of the caller that has the API key.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := customers[r.Header.Get("X-Api-Key")]
		if !ok {
			http.Error(w, "no such API key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, name)))
	})
}
