package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/limit"
)

// Bounds on failed authorisations. A person mistypes a few times; 10 a minute are 5 million
// guesses a year, which a good password outlives.
const (
	maxFailures   = 10
	failureWindow = time.Minute
	maxAddresses  = 4096 // that are counted one by one; all others count together
	maxWrong      = 1024 // wrong credentials that are remembered
	maxReason     = 256  // bytes of an error that the log is told
)

// attempts asks [Config.Authorize], and bounds how often an address may fail: what is beyond is
// refused before it is asked, right or wrong, so that nothing is learned. Nobody waits, and
// addresses do not disturb each other.
type attempts struct {
	authorize func(*http.Request) (string, error)
	address   func(*http.Request) string
	logger    *slog.Logger
	secret    []byte
	failures  *limit.RateLimiter // by address

	mu    sync.Mutex // guards wrong; nothing is called under it
	wrong map[[sha256.Size]byte]struct{}
}

func newAttempts(cfg *Config, secret []byte) *attempts {
	failures, err := limit.NewCounter(limit.Config{
		Name: "failed authorisations", Limit: maxFailures, Window: failureWindow, MaxKeys: maxAddresses, WhenFull: limit.Share,
	})
	if err != nil {
		panic(err) // the configuration is a good one
	}
	return &attempts{
		authorize: cfg.Authorize, address: cfg.Address, logger: cfg.Logger, secret: secret,
		failures: failures, wrong: make(map[[sha256.Size]byte]struct{}),
	}
}

// errTooMany is the error of an address that has failed too often.
type errTooMany struct{ retryAfter time.Duration }

func (e *errTooMany) Error() string {
	return fmt.Sprintf("too many failed attempts from your address; try again in %d s", e.seconds())
}

func (e *errTooMany) seconds() int { return int(math.Ceil(e.retryAfter.Seconds())) }

// askReader is ask for a reading. The same wrong credentials count once, for a page sends those
// that it has with all that it reads. For a change they do not: Authorize may go by another
// field, and then any wrong Authorization would let that be guessed. An address that has failed too
// often is not asked about, whatever it sends.
func (a *attempts) askReader(r *http.Request) (who string, err error) {
	address := a.addressOf(r)
	if !a.isWrong(a.sum(address, r.Header["Authorization"])) {
		return a.ask(r)
	}
	if d := a.failures.Peek(keyOf(address)); !d.Allowed {
		return "", &errTooMany{d.RetryAfter}
	}
	return a.authorize(r)
}

// keyOf returns the key of an address, which may be empty, and a key must not.
func keyOf(address string) string { return "address " + address }

func (a *attempts) addressOf(r *http.Request) string { return clip(a.address(r), maxAddress) }

// ask returns the name of the user who sends a request, if that user may change rules. If not,
// it counts the attempt.
func (a *attempts) ask(r *http.Request) (who string, err error) {
	address := a.addressOf(r)
	credentials := r.Header["Authorization"]
	// It is charged before it is asked, and refunded, so that many at once are no more.
	key := keyOf(address)
	d, err := a.failures.Allow(context.Background(), key) // one who hangs up is charged too
	if err != nil {
		return "", err
	}
	if !d.Allowed {
		return "", &errTooMany{d.RetryAfter}
	}
	who, err = a.authorize(r)
	if err == nil {
		_ = a.failures.Refund(context.Background(), key, d, d.Charged) // at worst, it counts
		return who, nil
	}
	level := slog.LevelWarn
	var challenge Challenge
	switch {
	case len(credentials) > 0:
		a.remember(a.sum(address, credentials))
	case errors.As(err, &challenge):
		level = slog.LevelInfo // it is the first step of each who has not said who he is
	}
	a.logger.LogAttrs(r.Context(), level, "leapgate: failed authorisation on the dashboard",
		slog.String("address", escape.Text(address)), slog.String("method", r.Method),
		slog.String("error", escape.Text(clip(err.Error(), maxReason))))
	return "", err
}

// sum returns what credentials of an address are remembered by.
func (a *attempts) sum(address string, credentials []string) (sum [sha256.Size]byte) {
	hash := hmac.New(sha256.New, a.secret)
	_, _ = fmt.Fprintf(hash, "%q %q", address, credentials) // it never fails
	hash.Sum(sum[:0])
	return sum
}

func (a *attempts) isWrong(sum [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.wrong[sum]
	return ok
}

func (a *attempts) remember(sum [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wrong) >= maxWrong {
		clear(a.wrong) // what is forgotten counts again
	}
	a.wrong[sum] = struct{}{}
}

// editor reports whether the one who reads may change rules as well, and who it is. What is not
// in the Authorization header, such as a cookie or what a proxy adds, is nothing that is
// guessed at, and does not count: readers without rights send it with all that they ask.
func (d *Dashboard) editor(r *http.Request) (who string, ok bool) {
	if d.cfg.Authorize == nil {
		return "", false
	}
	ask := d.cfg.Authorize
	if r.Header.Get("Authorization") != "" {
		ask = d.attempts.askReader
	}
	who, err := ask(r)
	return who, err == nil
}
