package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// resources returns the resources of requests such as "GET /items/1 200", which are all read
// before.
func resources(t *testing.T, given []Route, requests ...string) (names []string) {
	t.Helper()
	r, err := newRoutes(given)
	require.NoError(t, err)
	var targets []target
	for _, text := range requests {
		rec := Record{Status: 200}
		parts := strings.Split(text, " ")
		rec.Method, rec.Path = []byte(parts[0]), []byte(parts[1])
		if len(parts) > 2 {
			_, err := fmt.Sscan(parts[2], &rec.Status)
			require.NoError(t, err)
		}
		targets = append(targets, r.target(&rec))
	}
	var found interned
	number, _ := r.resources(&found)
	for _, target := range targets {
		names = append(names, found.all[number(target)])
	}
	return names
}

func TestFound_ValuesStandForAny(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/items/17": "/items/{}", "/items/17/parts/9": "/items/{}/parts/{}", "/": "/", "/items/": "/items/", "//": "//",
		"/u/6ba7b810-9dad-11d1-80b4-00c04fd430c8": "/u/{}", "/u/2024-05-20": "/u/{}", "/u/192.0.2.1": "/u/{}", "/u/d41d8cd98f00b204e9800998ecf8427e": "/u/{}",
		"/v1/orders": "/v1/orders", "/face/beef": "/face/beef", "/a.b": "/a.b", "/-": "/-",
		"/t/" + strings.Repeat("x", 65): "/t/{}", strings.Repeat("/a", 12): strings.Repeat("/a", 12), strings.Repeat("/a", 20): strings.Repeat("/a", 11) + "/{}",
	} {
		require.Equal(t, []string{"GET " + want}, resources(t, nil, "GET "+path))
	}
}

func TestFound_TooManyValuesStandForAny(t *testing.T) {
	t.Parallel()
	var requests []string
	for i := range maxValues {
		requests = append(requests, fmt.Sprintf("GET /shops/s%d/items", i), fmt.Sprintf("GET /pages/p%d", i))
	}
	requests = append(requests, "GET /shops/one-more/items", "POST /shops/s1/items", "GET /shops/s1", "GET /shops/", "GET /shops/s2/items/17")
	got := resources(t, nil, requests...)
	require.Equal(t, []string{"GET /shops/{}/items", "GET /pages/p0"}, got[:2])
	require.Equal(t, []string{"GET /shops/{}/items", "POST /shops/{}/items", "GET /shops/{}", "GET /shops/", "GET /shops/{}/items/{}"}, got[len(got)-5:])
}

// What strangers look for on every server is no resource, and does not hide those that are.
func TestFound_WhatIsNotThereIsNoResource(t *testing.T) {
	t.Parallel()
	requests := []string{"GET /orders 200", "GET /orders/17 404", "GET /orders/18 200", "BREW /orders 405", "PUT /orders/19 405"}
	for i := range 1000 {
		requests = append(requests, fmt.Sprintf("GET /wp%d/admin.php 404", i))
	}
	got := resources(t, nil, requests...)
	require.Equal(t, []string{"GET /orders", "GET /orders/{}", "GET /orders/{}", "OTHER /orders", "PUT /orders/{}", "GET (unmatched)"}, got[:6])
	require.Equal(t, []string{"CONNECT (unmatched)", "OPTIONS (unmatched)", "OTHER (unmatched)"}, resources(t, nil, "CONNECT a:443", "OPTIONS *", " "))
}

func TestFound_DoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var requests []string
	for range 5000 {
		path := ""
		for range 1 + random.IntN(5) {
			path += fmt.Sprintf("/%c%d", "abc"[random.IntN(3)], int(random.ExpFloat64()*20))
		}
		requests = append(requests, "GET "+path)
	}
	want := resources(t, nil, requests...)
	byRequest := make(map[string]string)
	for i, r := range requests {
		byRequest[r] = want[i]
	}
	for range 3 {
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for i, name := range resources(t, nil, requests...) {
			require.Equal(t, byRequest[requests[i]], name, requests[i])
		}
	}
}

func TestRoutes_AreThoseOfServeMux(t *testing.T) {
	t.Parallel()
	given := []Route{
		{Pattern: "/static/"},
		{Pattern: "GET /items/{id}"},
		{Pattern: "GET /items/new"},
		{Pattern: "/items/{id}"},
		{Pattern: "/exact/{$}"},
		{Pattern: "/files/{path...}"},
		{Pattern: "POST /own", Resource: "own"},
		{Pattern: "/api", Prefix: true},
		{Pattern: "/api/search", Prefix: true, Resource: "search"},
	}
	for request, want := range map[string]string{
		"GET /static/a/b": "GET /static/", "GET /static/": "GET /static/", "GET /static": "GET /static",
		"GET /items/7": "GET /items/{id}", "HEAD /items/7": "GET /items/{id}", "GET /items/new": "GET /items/new", "PUT /items/7": "PUT /items/{id}",
		"PUT /items/new": "PUT /items/{id}", "GET /items/": "GET /items/", "GET /items/7/x": "GET /items/{}/x", "GET /exact/": "GET /exact/{$}", "GET /exact/a": "GET /exact/a",
		"GET /files/": "GET /files/{path...}", "GET /files/a/b": "GET /files/{path...}", "POST /own": "own", "GET /own": "GET /own",
		"GET /apis": "GET /api", "GET /api/search/x": "search", "BREW /api": "OTHER /api",
	} {
		require.Equal(t, []string{want}, resources(t, given, request), request)
	}
	slices.Reverse(given)
	require.Equal(t, []string{"GET /items/new", "search"}, resources(t, given, "GET /items/new", "GET /api/search"))
}

// However many paths clients invent, they take a bounded amount of memory.
func TestInterned_HasABound(t *testing.T) {
	t.Parallel()
	var names interned
	for i := range 100 {
		n := names.number(fmt.Sprint("/", i), 10*70)
		require.Equal(t, i >= len(names.all), n == 0 && i > 0, i)
		require.Equal(t, n, names.number(fmt.Sprint("/", i), 10*70))
	}
	require.True(t, names.full)
	require.Len(t, names.all, 11)
}
