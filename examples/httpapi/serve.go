package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapprom"
)

// addresses are where the program listens.
type addresses struct{ api, metrics string }

// serve serves until ctx ends. Then requests are finished first, and the limiters end, and the
// client of Redis last.
func serve(ctx context.Context, at addresses, limits limits, out io.Writer) (err error) {
	gate, err := newGate()
	if err != nil {
		return err
	}
	defer gate.Close()
	limiters, err := newLimiters(limits)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limiters.Close()) }()
	api, err := newAPI(gate, limiters)
	if err != nil {
		return err
	}
	metrics, err := newMetrics(gate, limiters)
	if err != nil {
		return err
	}
	var s servers
	defer func() { err = errors.Join(err, s.shutdown()) }()
	addr, err := s.listen(at.api, api)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Serving http://%s\n", addr)
	if at.metrics != "" {
		addr, err := s.listen(at.metrics, metrics)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "Metrics at http://%s/metrics\n", addr)
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	err = s.shutdown()
	summary(out, gate)
	return err
}

// servers are those of the API and of the metrics.
type servers struct {
	all    []*http.Server
	failed chan error // one of them
}

func (s *servers) listen(at string, handler http.Handler) (net.Addr, error) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: handler,
		// A client that is slow, or says nothing, is not waited for.
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	if s.all = append(s.all, server); s.failed == nil {
		s.failed = make(chan error, 2)
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return listener.Addr(), nil
}

// wait waits until ctx ends, or a server fails.
func (s *servers) wait(ctx context.Context) error {
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// shutdown ends them, one after the other, when the requests that they have are answered.
func (s *servers) shutdown() (err error) {
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, server := range s.all {
		err = errors.Join(err, server.Shutdown(grace))
	}
	return err
}

// newMetrics makes a handler for Prometheus, of the gate and the limiters.
func newMetrics(gate *leapgate.Gate, limiters *limiters) (http.Handler, error) {
	collector, err := leapprom.New(gate, leapprom.Config{Limiters: []leapprom.Limiter{limiters.perAddress, limiters.perKey}})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

func summary(out io.Writer, gate *leapgate.Gate) {
	for _, s := range gate.Snapshot() {
		fmt.Fprintf(out, "%-20s  passed %d, blocked by rules %d, exceptions %d\n", s.Resource, s.Pass, s.Block, s.Exception)
	}
}
