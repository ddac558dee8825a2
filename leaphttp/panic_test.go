package leaphttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// A function of the program panics after a limit has taken something. The request was not
// served, so the limit gets it back.
func TestHandler_FunctionOfTheProgramPanics_LimitIsRefunded(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	faulty := func(*http.Request) string { panic("fault") }
	for _, with := range []struct {
		name  string
		fault func(*leaphttp.Config)
	}{
		{"Key", func(c *leaphttp.Config) {
			c.Limits = append(c.Limits, leaphttp.Limit{Limiter: newLog(t, clock, "other", 1, time.Hour), Key: faulty})
		}},
		{"Skip", func(c *leaphttp.Config) {
			c.Limits = append(c.Limits, leaphttp.Limit{
				Limiter: newLog(t, clock, "other", 1, time.Hour), Skip: func(*http.Request) bool { panic("fault") },
			})
		}},
		{"Route", func(c *leaphttp.Config) { c.Gate, c.Route = gates.New(t, clock), faulty }},
		{"Arg", func(c *leaphttp.Config) { c.Gate, c.Args = gates.New(t, clock), map[string]leaphttp.Arg{"a": faulty} }},
		{"Origin", func(c *leaphttp.Config) { c.Gate, c.Origin = gates.New(t, clock), faulty }},
	} {
		t.Run(with.name, func(t *testing.T) {
			t.Parallel()
			l := newLog(t, clock, "client", 1, time.Hour)
			cfg := leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}}}
			with.fault(&cfg)
			h := leaphttp.Handler(forbidden(t), cfg)
			require.PanicsWithValue(t, "fault", func() { get(h, "/") })
			require.EqualValues(t, 1, l.Peek("k").Remaining)
		})
	}
}

func TestTransport_ResourcePanics_LimitIsRefunded(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	l := newLog(t, clock, "host", 1, time.Hour)
	transport := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate:     gates.New(t, clock),
		Resource: func(*http.Request) string { panic("fault") },
		Limits:   []leaphttp.Limit{{Limiter: l, Key: by("k")}},
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", http.NoBody)
	require.NoError(t, err)
	require.PanicsWithValue(t, "fault", func() { _, _ = transport.RoundTrip(r) }) //nolint:bodyclose // there is none
	require.EqualValues(t, 1, l.Peek("k").Remaining)
}

func TestHandler_WhatNeverPasses_NamesNoRetryAfter(t *testing.T) {
	t.Parallel()
	none := newLog(t, gatetest.NewClock(), "none", 0, time.Second)
	w := get(leaphttp.Handler(forbidden(t), leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: none}}}), "/")
	require.Empty(t, w.Header().Values("Retry-After"))
	require.Equal(t, `The quota "none" is used up.`, problemOf(t, w).Detail)
}

// The gate's Outcome panics when it is asked what an answer of 500 is. The call ends all the
// same, and its place is free.
func TestHandler_OutcomePanics_CallAndPlaceEnd(t *testing.T) {
	t.Parallel()
	for _, handler := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter, *http.Request) { panic("the handler") },
		func(w http.ResponseWriter, _ *http.Request) { leaphttp.SetError(w, errors.New("failed")) },
	} {
		gate := leapgate.Must(leapgate.Config{Outcome: func(error) leapgate.Outcome { panic("fault") }})
		inFlight := newInFlight(t, limit.Config{Limit: 1})
		h := leaphttp.Handler(handler, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{InFlight: inFlight}}})
		require.PanicsWithValue(t, "fault", func() { get(h, "/") })
		require.Zero(t, inFlight.Stats().InFlight)
		require.Zero(t, snapshot(gate, "GET (unmatched)").Concurrency)
		require.EqualValues(t, 1, snapshot(gate, "GET (unmatched)").Exception, "what cannot be judged is a failure")
	}
}

// A client hangs up while a rule lets it wait, and the program's Status panics: nobody has the
// place any more.
func TestHandler_StatusPanics_PlaceIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{Resource: "GET (unmatched)", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		inFlight := newInFlight(t, limit.Config{Limit: 1})
		h := leaphttp.Handler(ok, leaphttp.Config{
			Gate: gate, Limits: []leaphttp.Limit{{InFlight: inFlight}}, Status: func(*leapgate.BlockError) int { panic("fault") },
		})
		require.Equal(t, 200, get(h, "/").Code)
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		require.PanicsWithValue(t, "fault", func() { do(h, from("192.0.2.1:1").WithContext(ctx)) })
		require.Zero(t, inFlight.Stats().InFlight)
	})
}
