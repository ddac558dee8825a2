package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

// Bounds and defaults of a [Config].
const (
	DefaultMaxViewers = 32
	MostMaxViewers    = 10_000
	DefaultTitle      = "Leapgate"
	maxTitle          = 256
)

// Config says what a dashboard shows and allows. The zero Config is a good one: figures only.
type Config struct {
	// Title is what the page is called: at most 256 bytes; "" is "Leapgate".
	Title string

	// Limiters are shown beside the resources, under the names that they describe
	// themselves with.
	Limiters []Limiter

	// HideKeys shows keyed hashes in place of the limiters' keys, where those tell who a
	// client is. The same key has the same hash until the program ends.
	HideKeys bool

	// MaxViewers is how many may watch at a time: 1 to 10,000; 0 is 32. Further ones get 503.
	MaxViewers int

	// Authorize lets rules be changed. It tells who the one is that asks, for the log; or
	// an error if he may not, whose text he is shown: 403, or 401 if it is a [Challenge]. It is
	// asked for every change, and to tell the page who is looking. It must be safe for
	// concurrent use. Nil: nobody may change rules.
	//
	// Requests that a page of another origin makes are refused before it is asked. Where the
	// answer hangs on the address alone, as it does for "whoever can reach this port", it
	// should look at r.Host too: a name that an attacker owns may lead to your address.
	Authorize func(r *http.Request) (who string, err error)

	// Writer saves rules that are kept elsewhere, such as in rule files: see [RuleFiles].
	// Nil: rules that have a Source are read-only here.
	Writer Writer

	// Logger is told every change of a rule: who, from what, to what. Nil is slog.Default().
	Logger *slog.Logger
}

// Limiter is a keyed limiter that can be shown. Those of package limit are.
type Limiter interface {
	limit.Describer
	Stats() limit.Stats
	// Offenders gives the keys that were refused most, k at most, the worst first.
	Offenders(k int) []limit.Offender
}

// Writer saves rules at their source.
type Writer interface {
	// Sources gives the sources that can be written, as in the Source of rules. It is the
	// same at every call.
	Sources() []string
	// Write makes rules.After what the source holds, or, with an error, leaves it as it is.
	// The rules have been found good. They are loaded into the gate when Write has
	// returned; a watcher that finds them at the source loads them again, which changes
	// nothing. One Write is called at a time.
	Write(ctx context.Context, change Change) error
}

// Change is what happens to the rules of one source.
type Change struct {
	Source string
	// Before is what the gate has of it, and After what it shall have, with IDs and
	// defaults filled in.
	Before, After rulefile.Rules
}

// Challenge is an error of Authorize that asks who it is: the answer is 401 with this as
// WWW-Authenticate. With `Basic realm="rules", charset="UTF-8"` browsers ask by
// themselves; with `Bearer` the page asks for a token, and sends it along.
type Challenge string

// Error reads: say who you are.
func (Challenge) Error() string { return "say who you are" }

// ErrConfig is what every error of [New] is.
var ErrConfig = errors.New("dashboard: bad configuration")

// complete fills in the defaults, and tells everything that is wrong.
func (c *Config) complete(gate *leapgate.Gate) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	if gate == nil {
		fault("the gate is nil; want one")
	}
	if len(c.Title) > maxTitle {
		fault("Title is %.32q…, of %d bytes; want at most %d", c.Title, len(c.Title), maxTitle)
	}
	if c.Title == "" {
		c.Title = DefaultTitle
	}
	for i, l := range c.Limiters {
		if l == nil {
			fault("Limiters[%d] is nil; want a limiter", i)
		}
	}
	if c.MaxViewers < 0 || c.MaxViewers > MostMaxViewers {
		fault("MaxViewers is %d; want 1 to %d, or 0 for %d", c.MaxViewers, MostMaxViewers, DefaultMaxViewers)
	}
	if c.MaxViewers == 0 {
		c.MaxViewers = DefaultMaxViewers
	}
	if c.Writer != nil && c.Authorize == nil {
		fault("Writer is set and Authorize is not; want both, for nobody may change rules otherwise")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return errors.Join(faults...)
}
