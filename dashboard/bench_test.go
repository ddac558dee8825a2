package dashboard_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// busy returns a gate with n resources, each with a rule, that have been busy for a minute, and
// calls them all once: between frames, all figures change.
func busy(b *testing.B, n int) (gate *leapgate.Gate, again func()) {
	b.Helper()
	c := gatetest.ClockAt(start)
	names := make([]string, n)
	rules := make([]flow.Rule, n)
	for i := range n {
		names[i] = fmt.Sprintf("GET /orders/items/%05d", i)
		rules[i] = flow.Rule{Resource: names[i], Threshold: 100}
	}
	gate = gates.New(b, c, rules...)
	again = func() {
		for _, name := range names {
			call(b, c, gate, name, 1, time.Microsecond)
		}
	}
	for range 61 {
		again()
		c.Advance(time.Second)
	}
	return gate, again
}

// BenchmarkResources is one request for the figures of all resources.
func BenchmarkResources(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		gate, _ := busy(b, n)
		d := dashboard.Handler(gate, dashboard.Config{})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := fetch(d, http.MethodGet, "/api/v1/resources")
				require.Equal(b, http.StatusOK, w.Code)
			}
		})
	}
}

// BenchmarkResource is what an open resource asks for every second.
func BenchmarkResource(b *testing.B) {
	gate, _ := busy(b, 1000)
	d := dashboard.Handler(gate, dashboard.Config{})
	b.ReportAllocs()
	for b.Loop() {
		w := fetch(d, http.MethodGet, "/api/v1/resource?name=GET+/orders/items/00007")
		require.Equal(b, http.StatusOK, w.Code)
	}
}

// BenchmarkEntry is an entry and its exit, by name, alone and while five watch.
func BenchmarkEntry(b *testing.B) {
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(b, gate.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1e12}}))
	entries := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := gate.Entry("orders")
			if err != nil {
				b.Fatal(err)
			}
			e.Exit()
		}
	}
	b.Run("alone", entries)
	d := dashboard.Handler(gate, dashboard.Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{Handler: d}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	b.Run("attached", entries)
	for range 5 {
		viewer, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(b, err)
		defer viewer.Close()
		_, err = io.WriteString(viewer, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(b, err)
		go func() { _, _ = io.Copy(io.Discard, viewer) }()
	}
	b.Run("watched", entries)
	require.NoError(b, d.Close())
}
