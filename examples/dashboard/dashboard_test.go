package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/stat"
)

// TestShop_RisesIsBlockedAndRecovers lets two minutes pass, and asks of each kind of rule that it
// was exceeded, and that a time without blocks came after.
func TestShop_RisesIsBlockedAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop, err := newShop()
		require.NoError(t, err)
		defer shop.close()
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			shop.open(ctx)
		}()

		blocked, recovered := map[string]bool{}, map[string]bool{}
		for range 120 {
			time.Sleep(time.Second)
			for _, s := range shop.gate.Snapshot() {
				if s.BlockQPS > 0 {
					blocked[s.Resource] = true
				} else if blocked[s.Resource] && s.PassQPS > 0 {
					recovered[s.Resource] = true
				}
			}
		}
		cancel()
		<-closed

		for _, name := range []string{"GET /orders", "GET /recommendations", "GET /items", "db.query", "mail.send", "tenant/acme"} {
			require.True(t, blocked[name], "%s was never blocked", name)
			require.True(t, recovered[name], "%s did not recover", name)
		}
		figures := map[string]stat.Snapshot{}
		for _, s := range shop.gate.Snapshot() {
			figures[s.Resource] = s
			require.Zero(t, s.Concurrency, "%s: somebody is still in", s.Resource)
		}
		require.Positive(t, figures["GET /search"].WouldBlock, "the shadow rule would have blocked nothing")
		require.Zero(t, figures["GET /search"].Block)
		require.Zero(t, figures["tenant/globex"].Block, "a tenant was blocked for another")
		require.Greater(t, figures["payments.charge"].Exception, figures["payments.charge"].Success/20)
		require.Len(t, figures, len(customers)+1, "and other")
		require.Equal(t, "admin", shop.logins.Offenders(1)[0].Key)
	})
}

// TestTrouble_ComesAndGoes: all is calm but for the one thing, while it is said to be there.
func TestTrouble_ComesAndGoes(t *testing.T) {
	t.Parallel()
	for trouble, counts := range map[string]func(s *stat.Snapshot) int64{
		"outage":   func(s *stat.Snapshot) int64 { return s.Exception },
		"overload": func(s *stat.Snapshot) int64 { return s.Block },
		"hotkey":   func(s *stat.Snapshot) int64 { return s.Block },
	} {
		synctest.Test(t, func(t *testing.T) {
			shop, err := newShop()
			require.NoError(t, err)
			defer shop.close()
			shop.customers = calmCustomers(troubles[trouble])
			ctx, cancel := context.WithCancel(t.Context())
			var inside sync.WaitGroup
			var said strings.Builder
			inside.Go(func() { shop.open(ctx) })
			inside.Go(func() { shop.tell(ctx, trouble, &said) })
			bad := func() (n int64) {
				for _, s := range shop.gate.Snapshot() {
					if s.Resource == troubles[trouble].resource {
						n = counts(&s)
					} else {
						require.Zero(t, s.Block+s.Exception, s.Resource)
					}
				}
				return n
			}
			time.Sleep(troublePeriod - troubleLength)
			require.Zero(t, bad(), trouble)
			time.Sleep(2 * time.Second)
			require.Greater(t, bad(), int64(10), trouble)
			time.Sleep(troubleLength)
			before := bad()
			time.Sleep(5 * time.Second)
			require.LessOrEqual(t, bad(), before, "it is over")
			cancel()
			inside.Wait()
			require.Equal(t, "All is calm.\nTrouble: "+trouble+".\nAll is calm.\n", said.String())
		})
	}
}

func TestTrouble_BreaksTheRuleFile(t *testing.T) {
	t.Parallel()
	shop, err := newShop()
	require.NoError(t, err)
	defer shop.close()
	shop.rules, err = newRuleFile(shop, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Len(t, shop.gate.FlowRules(), 7)
	require.NoError(t, shop.rules.write(true))
	require.ErrorContains(t, shop.rules.watcher.Reload(), "threshold is -2")
	require.NoError(t, shop.rules.write(false))
	require.NoError(t, shop.rules.watcher.Reload())
}

func TestPage_WantsTheToken(t *testing.T) {
	t.Parallel()
	shop, err := newShop()
	require.NoError(t, err)
	defer shop.close()
	change := func(token, sent string) int {
		page, err := newPage(shop, token, slog.New(slog.NewTextHandler(io.Discard, nil)))
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "http://localhost/leapgate/api/v1/rules?kind=flow", strings.NewReader(`{"resource":"new","threshold":1}`))
		r.Header.Set("Content-Type", "application/json")
		if sent != "" {
			r.Header.Set("Authorization", "Bearer "+sent)
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusForbidden, change("", "open-sesame"), "nobody may")
	require.Equal(t, http.StatusUnauthorized, change("open-sesame", ""))
	require.Equal(t, http.StatusUnauthorized, change("open-sesame", "open"))
	require.Equal(t, http.StatusCreated, change("open-sesame", "open-sesame"))
}

func TestMetrics_TellWhatThePageShows(t *testing.T) {
	t.Parallel()
	shop, err := newShop()
	require.NoError(t, err)
	defer shop.close()
	metrics, err := newMetrics(shop)
	require.NoError(t, err)
	require.NoError(t, shop.gate.Do(t.Context(), "GET /orders", func(context.Context) error { return nil }))
	_, err = shop.logins.Allow(t.Context(), "admin")
	require.NoError(t, err)
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Contains(t, w.Body.String(), `leapgate_entries_total{gate="shop",resource="GET /orders",result="pass"} 1`)
	require.Contains(t, w.Body.String(), `leapgate_limiter_decisions_total{answer="allowed",gate="shop",limiter="logins"} 1`)
}

func TestMetrics_TellOfTheRuleFile(t *testing.T) {
	t.Parallel()
	shop, err := newShop()
	require.NoError(t, err)
	defer shop.close()
	shop.rules, err = newRuleFile(shop, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	metrics, err := newMetrics(shop)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Regexp(t, `leapgate_rules_last_load_successful{gate="shop",source=".*shop.yaml"} 1`, w.Body.String())
}

func TestRun_ForATime(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	require.Zero(t, run(t.Context(), []string{"-http", "127.0.0.1:0", "-for", "1ms"}, &out, &errs))
	require.Regexp(t, `^See it live: http://127\.0\.0\.1:\d+/leapgate/\n$`, out.String())
	require.Empty(t, errs.String())
}

func TestRun_BadFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][][]string{
		2: {{"-trouble", "flood"}, {"-for", "soon"}, {"-for", "-1s"}, {"now"}, {"-x"}},
		1: {{"-http", "nowhere"}},
		0: {{"-h"}},
	} {
		for _, args := range args {
			var out, errs strings.Builder
			require.Equal(t, want, run(t.Context(), args, &out, &errs), "%q", args)
			require.Empty(t, out.String())
			require.NotEmpty(t, errs.String())
		}
	}
}
