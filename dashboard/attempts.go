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
	"net/netip"
	"strings"
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
	maxAddresses  = 4096 // addresses, and networks of each size, that are counted at a time
	maxWrong      = 1024 // wrong credentials that are remembered
	maxKnown      = 1024 // addresses that are remembered because somebody has signed in from them
	maxReason     = 256  // bytes of an error that the log is told
)

// attempts asks [Config.Authorize], and bounds how often an address may fail: what is beyond is
// refused before it is asked, right or wrong, so that nothing is learned. Nobody waits, and
// addresses do not disturb each other.
//
// If too many addresses fail at the same time, further ones are counted by their network, and then by
// larger networks. Addresses from which somebody has signed in always have a count of their own.
type attempts struct {
	authorize func(*http.Request) (string, error)
	address   func(*http.Request) string
	logger    *slog.Logger
	secret    []byte
	failures  [networkSizes]*limit.RateLimiter // by address, and by networks of growing size
	ofKnown   *limit.RateLimiter               // by address, of those in known for which failures has no room

	mu    sync.Mutex // guards wrong and known; nothing is called under it
	wrong map[[sha256.Size]byte]struct{}
	known map[string]struct{} // addresses
}

// networkSizes is the number of keys that networks returns.
const networkSizes = 4

func newAttempts(cfg *Config, secret []byte) *attempts {
	counter := func(whenFull limit.Policy) *limit.RateLimiter {
		l, err := limit.NewCounter(limit.Config{
			Name: "failed authorisations", Limit: maxFailures, Window: failureWindow, MaxKeys: maxAddresses, WhenFull: whenFull,
		})
		if err != nil {
			panic(err) // the configuration is a good one
		}
		return l
	}
	a := &attempts{
		authorize: cfg.Authorize, address: cfg.Address, logger: cfg.Logger, secret: secret, ofKnown: counter(limit.Evict),
		wrong: make(map[[sha256.Size]byte]struct{}), known: make(map[string]struct{}),
	}
	for i := range a.failures {
		a.failures[i] = counter(limit.Deny)
	}
	a.failures[networkSizes-1] = counter(limit.Share)
	return a
}

// networks returns the keys under which failures of an address are counted: the address itself, and networks around
// it of growing size. A text that is no address has itself only.
func networks(address string) [networkSizes]string {
	key := "address " + address // a key must not be empty
	keys := [networkSizes]string{key, key, key, key}
	addr, err := netip.ParseAddr(address)
	if prefix, notPrefix := netip.ParsePrefix(address); notPrefix == nil {
		addr, err = prefix.Addr(), nil
	}
	if err != nil {
		return keys
	}
	sizes := [...]int{48, 32, 16}
	if addr = addr.Unmap(); addr.Is4() {
		sizes = [...]int{24, 16, 8}
	}
	for i, bits := range sizes {
		if network, err := addr.Prefix(bits); err == nil {
			keys[i+1] = network.String()
		}
	}
	return keys
}

// decide asks the limiter that counts the failures of an address.
func (a *attempts) decide(address string, ask func(l *limit.RateLimiter, key string) limit.Decision) (d limit.Decision) {
	a.mu.Lock()
	_, known := a.known[address]
	a.mu.Unlock()
	keys := networks(address)
	for i, l := range a.failures {
		if i > 0 && known {
			return ask(a.ofKnown, keys[0])
		}
		if d = ask(l, keys[i]); !d.Crowded {
			break
		}
	}
	return d
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
	if d := a.decide(address, (*limit.RateLimiter).Peek); !d.Allowed {
		return "", &errTooMany{d.RetryAfter}
	}
	return a.authorize(r)
}

func (a *attempts) addressOf(r *http.Request) string { return clip(a.address(r), maxAddress) }

// ask returns the name of the user who sends a request, if that user may change rules. If not,
// it counts the attempt.
func (a *attempts) ask(r *http.Request) (who string, err error) {
	address := a.addressOf(r)
	credentials := r.Header["Authorization"]
	// It is charged before it is asked, and refunded, so that many at once are no more.
	refund := func(limit.Decision) {}
	d := a.decide(address, func(l *limit.RateLimiter, key string) limit.Decision {
		d, _ := l.Allow(context.Background(), key)                                                // one who hangs up is charged too
		refund = func(d limit.Decision) { _ = l.Refund(context.Background(), key, d, d.Charged) } // at worst, it counts
		return d
	})
	if !d.Allowed {
		return "", &errTooMany{d.RetryAfter}
	}
	who, err = a.authorize(r)
	if err == nil {
		refund(d)
		a.remember(address)
		return who, nil
	}
	level := slog.LevelWarn
	var challenge Challenge
	switch {
	case len(credentials) > 0:
		a.rememberWrong(a.sum(address, credentials))
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

// remember notes that somebody has signed in from an address.
func (a *attempts) remember(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known) // until they sign in again
	}
	a.known[address] = struct{}{}
}

func (a *attempts) rememberWrong(sum [sha256.Size]byte) {
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
	if strings.Join(r.Header["Authorization"], "") != "" {
		ask = d.attempts.askReader
	}
	who, err := ask(r)
	if err != nil {
		return "", false
	}
	return who, true
}
