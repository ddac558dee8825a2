package docs_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

// perClient admits 10 requests of each client at once, and then 5 a second.
func perClient() (*limit.RateLimiter, error) {
	return limit.NewBurst(limit.Config{
		Name:   "per-client",
		Limit:  5,
		Window: time.Second,
		Burst:  10,
	})
}

// allow answers for one client.
func allow(ctx context.Context, limiter *limit.RateLimiter, client string) (wait time.Duration, ok bool) {
	d, err := limiter.Allow(ctx, client)
	if err != nil { // the key is bad, or ctx has ended
		return 0, false
	}
	return d.RetryAfter, d.Allowed
}

// sendAll sends mails one after the other, as the limiter admits them.
func sendAll(ctx context.Context, limiter *limit.RateLimiter, mails []string, send func(string) error) error {
	for _, mail := range mails {
		d, err := limiter.Wait(ctx, "mail", 1)
		if err != nil {
			return err // ctx has ended meanwhile
		}
		if !d.Allowed {
			return fmt.Errorf("its turn would come in %v, and ctx ends before", d.RetryAfter)
		}
		if err := send(mail); err != nil {
			return err
		}
	}
	return nil
}

func TestFromRate_ABurstAndThenARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := perClient()
		require.NoError(t, err)
		for range 10 {
			_, ok := allow(t.Context(), limiter, "acme")
			require.True(t, ok)
		}
		wait, ok := allow(t.Context(), limiter, "acme")
		require.False(t, ok)
		require.Equal(t, 200*time.Millisecond, wait)
		_, ok = allow(t.Context(), limiter, "another")
		require.True(t, ok)
		_, ok = allow(t.Context(), limiter, "")
		require.False(t, ok)
	})
}

func TestFromRate_MailsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := perClient()
		require.NoError(t, err)
		sent := 0
		send := func(string) error { sent++; return nil }
		start := time.Now()
		require.NoError(t, sendAll(t.Context(), limiter, make([]string, 15), send))
		require.Equal(t, 15, sent)
		require.Equal(t, time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, sendAll(ctx, limiter, make([]string, 1), send), "200ms")
	})
}

func TestFromRate_ARuleThatPaces(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("from-rate.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	rules, err := rulefile.Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		defer gate.Close()
		require.NoError(t, gate.LoadRules(rules))
		start := time.Now()
		for range 6 {
			require.NoError(t, gate.Do(t.Context(), "mail.send", func(context.Context) error { return nil }))
		}
		require.Equal(t, time.Second, time.Since(start))
	})
}
