// Getting-started is the program of docs/getting-started.md: a service with a rule file, a live page
// and metrics.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rulefile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	api, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	operators, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, "rules.yaml", api, operators); err != nil {
		log.Fatal(err)
	}
}

// run serves the API and the operators' pages until ctx ends.
func run(ctx context.Context, rules string, api, operators net.Listener) error {
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	watcher, err := rulefile.Watch(rulefile.Config{Path: rules, Gate: gate})
	if err != nil {
		return err
	}
	defer watcher.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", showOrder(gate))
	protect, err := leaphttp.New(leaphttp.Config{Gate: gate, Mux: mux})
	if err != nil {
		return err
	}

	page, err := dashboard.New(gate, dashboard.Config{RuleSources: []dashboard.RuleSource{watcher}})
	if err != nil {
		return err
	}
	collector, err := leapprom.New(gate, leapprom.Config{RuleSources: []leapprom.RuleSource{watcher}})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	inside := http.NewServeMux()
	inside.Handle("/leapgate/", page)
	inside.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	servers := []*http.Server{
		{Handler: protect(mux), ReadHeaderTimeout: 5 * time.Second},
		{Handler: inside, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second},
	}
	servers[1].RegisterOnShutdown(func() { _ = page.Close() }) // ends the live streams
	failed := make(chan error, len(servers))
	for i, listener := range []net.Listener{api, operators} {
		go func() { failed <- servers[i].Serve(listener) }()
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(grace))
	}
	return err
}

// showOrder answers with an order. If the database fails, it answers without the details.
func showOrder(gate *leapgate.Gate) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		details, err := leapgate.Call(r.Context(), gate, "db.query",
			func(ctx context.Context) (string, error) { return query(ctx, id) })
		if err != nil {
			leaphttp.SetError(w, err) // the answer is a 200, but the request has failed
			details = "no details at the moment"
		}
		fmt.Fprintf(w, "order %q: %s\n", id, details)
	}
}

// query stands for a database. The order 0 makes it fail.
func query(_ context.Context, id string) (string, error) {
	if id == "0" {
		return "", errors.New("the database is down")
	}
	return "two lamps", nil
}
