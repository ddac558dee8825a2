package docs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// completions lets each tenant have 100,000 tokens a minute. estimate returns how many tokens
// a request may take at most. complete asks the model, and returns how many it took.
func completions(
	tenant leaphttp.Key,
	estimate func(*http.Request) int64,
	complete func(ctx context.Context, w http.ResponseWriter, r *http.Request) (used int64),
) (http.Handler, error) {
	tokens, err := limit.NewLog(limit.Config{Name: "tokens", Limit: 100_000, Window: time.Minute})
	if err != nil {
		return nil, err
	}
	protect, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: tokens, Key: tenant, Cost: estimate,
	}}})
	if err != nil {
		return nil, err
	}
	return protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used := complete(r.Context(), w, r)
		if _, err := leaphttp.Settle(w, used); err != nil {
			slog.ErrorContext(r.Context(), "tokens were not settled", "used", used, "error", err)
		}
	})), nil
}

func number(r *http.Request, name string) int64 {
	n, _ := strconv.ParseInt(r.Header.Get(name), 10, 64)
	return n
}

// completionOf returns the header of a request that may take so many tokens and takes others.
func completionOf(most, used int) http.Header {
	return http.Header{"Tenant": {"acme"}, "Max-Tokens": {strconv.Itoa(most)}, "Used": {strconv.Itoa(used)}}
}

func newCompletions(t *testing.T, inside func()) http.Handler {
	t.Helper()
	h, err := completions(leaphttp.Header("Tenant"),
		func(r *http.Request) int64 { return number(r, "Max-Tokens") },
		func(_ context.Context, w http.ResponseWriter, r *http.Request) int64 {
			inside()
			fmt.Fprintln(w, "an answer")
			return number(r, "Used")
		})
	require.NoError(t, err)
	return h
}

func TestTokens_WhatWasNotUsedIsGivenBack(t *testing.T) {
	t.Parallel()
	server := start(t, newCompletions(t, func() {}))
	ask := func(most, used int) answer { return send(t, server, http.MethodPost, completionOf(most, used), "") }
	for range 90 {
		require.Equal(t, 200, ask(8_000, 1_000).StatusCode)
	}
	require.Equal(t, 200, ask(10_000, 0).StatusCode, "90,000 are used")
	refused := ask(10_001, 0)
	require.Equal(t, 429, refused.StatusCode)
	require.NotEmpty(t, refused.Header.Get("Retry-After"))
	require.Empty(t, ask(100_001, 0).Header.Get("Retry-After"), "it never passes")

	// An estimate that was too low is charged in full, and the next request pays for it.
	require.Equal(t, 200, ask(1_000, 15_000).StatusCode)
	require.Equal(t, 429, ask(1, 1).StatusCode)
}

func TestTokens_RequestsAtOnceAreChargedTheirEstimates(t *testing.T) {
	t.Parallel()
	var inside atomic.Int64
	end := make(chan struct{})
	server := start(t, newCompletions(t, func() { inside.Add(1); <-end }))
	var passed, refused atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		gatetest.AtOnce(25, func(int) {
			switch send(t, server, http.MethodPost, completionOf(8_000, 500), "").StatusCode {
			case 200:
				passed.Add(1)
			case 429:
				if refused.Add(1) == 13 {
					close(end)
				}
			}
		})
	}()
	<-done
	require.EqualValues(t, 12, passed.Load(), "12 × 8,000 is as much as there is room for")
	require.EqualValues(t, 13, refused.Load())
	require.EqualValues(t, 12, inside.Load())
}
