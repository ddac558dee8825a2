package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// Bounds and defaults of a [Config].
const (
	defaultMaxViewers = 32
	maxMaxViewers     = 10_000
	defaultTitle      = "Leapgate"

	defaultHistoryBytes = 64 << 20
	minHistoryBytes     = 1 << 20
	maxTitle            = 256
)

// Config says what a dashboard shows and allows. The zero Config is a good one: figures only.
type Config struct {
	// Title is what the page is called: at most 256 bytes; "" is "Leapgate".
	Title string

	// Hosts are the names that the dashboard answers to, as a browser has them in its address
	// bar, without port: "gate.example.com"; ".example.com" is all names below that; "*" is
	// any. Empty: this machine's own name, names without a dot, and those that end in .local,
	// .internal or .svc. IP addresses and localhost need not be named. A request for another
	// Host is answered with 421, since an attacker may have led a name of his own here, so
	// that what this handler says could be read by his page. X-Forwarded-Host does not
	// count: a proxy must keep the Host, or check it and send one that is named here.
	Hosts []string

	// Limiters are shown beside the resources, under the names that they describe
	// themselves with.
	Limiters []Limiter

	// RuleSources are shown beside the rules: since when what is active of each has been
	// active, and what is wrong with it. Of the RuleKeepers, those that are sources are shown
	// without being named here.
	RuleSources []RuleSource

	// ShowKeys is the audience of what may identify a client: keys of limiters, values of arguments, and
	// origins of blocked calls. It is [Editors], which is the default, [Everybody] or [Nobody].
	// Others see keyed hashes: the same key has the same hash until the program ends. What rules and rule
	// files say about clients, who changed a rule and why, and folders of the machine are hidden
	// in the same way, except that editors always see them, because they edit the rules.
	// For a stream of events, the viewer's rights are checked once, when the stream begins.
	ShowKeys Audience

	// MaxViewers is how many may watch at a time: 1 to 10,000; 0 is 32. A further viewer takes the
	// place of one from the address with the most viewers, if its own has fewer; otherwise it gets 503.
	// One whose machine is gone without a word counts until the operating system
	// gives up its connection, which may be some minutes.
	MaxViewers int

	// MaxViewersPerAddress is how many of them may come from one Address: 1 to MaxViewers; 0
	// is half of MaxViewers, rounded up.
	MaxViewersPerAddress int

	// KeepHistory has the last hour of every resource that is called kept, so that a page that is
	// opened or loaded again begins with it. It reads the figures of all resources every second,
	// in a goroutine that lives until [Dashboard.Close].
	KeepHistory bool

	// HistoryBytes is about how much memory the history may take in all: at least 1 MiB; 0 is
	// 64 MiB. A resource takes at most 32 KiB and 6 KiB for each of its rules. When there is no more
	// room, histories of resources that have not been called for a minute are dropped first, and counted;
	// then the shortest ones. Those of others go on, and no more begin.
	HistoryBytes int

	// Address returns the address that a request comes from, by which viewers and failed
	// authorisations are counted. Behind a proxy it should be that of the client, as the Key
	// of a [leaphttp.Address] is that trusts the proxy: otherwise all who come through it
	// share one count. Nil: the socket's peer, of IPv6 its network of 64 bits. It must be
	// safe for concurrent use.
	Address func(r *http.Request) string

	// Authorize lets rules be changed. It returns the name of the user who asks, for the log; or
	// an error if he may not, whose text he is shown: 403, or 401 if it is a [Challenge]. It is
	// asked for every change, and for readings that depend on it: who is looking, and what
	// ShowKeys hides. It must be safe for concurrent use. Nil: nobody may change rules.
	//
	// Failures are logged, and an Address that fails more than ten times a minute is refused
	// for a while: changes with 429, and what it reads is what others read. Every failed
	// change counts, and every failed reading with an Authorization header; of readings, the
	// same header counts once. So what can be guessed, such as a password, belongs into that header, and
	// not into a cookie or another field.
	//
	// Requests that a page of another origin makes, or that come under a name that is not of
	// Hosts, are refused before it is asked.
	Authorize func(r *http.Request) (who string, err error)

	// RuleKeepers keep rules elsewhere, such as in rule files, and can change them there. Each
	// has a name of its own. Rules that have the name of none as their Source are read-only
	// here.
	RuleKeepers []RuleKeeper

	// Logger is told every change of a rule: who, from what, to what, and why, if that was said.
	// Nil is slog.Default().
	Logger *slog.Logger
}

// Limiter is a keyed limiter that can be shown. Those of package limit are, but for a
// [limit.Group], whose limiters are shown one by one. If it has an Offenders as they have, the
// keys that were refused most are shown too.
type Limiter interface {
	limit.Describer
	Stats() limit.Stats
}

// Challenge is an error of Authorize that asks who it is: the answer is 401 with this as
// WWW-Authenticate. With `Basic realm="rules", charset="UTF-8"` browsers ask by
// themselves; with `Bearer` the page asks for a token, and sends it along.
type Challenge string

// Error reads: say who you are.
func (Challenge) Error() string { return "say who you are" }

// ErrConfig is what every error of [New] is.
var ErrConfig = errors.New("dashboard: bad configuration")

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
		c.Title = defaultTitle
	}
	for i, host := range c.Hosts {
		if want := hostFault(host); want != "" {
			fault("Hosts[%d] is %.64q; want %s", i, host, want)
		}
	}
	for i, l := range c.Limiters {
		if isNil(l) {
			fault("Limiters[%d] is nil; want a limiter", i)
		}
	}
	for i, s := range c.RuleSources {
		if isNil(s) {
			fault("RuleSources[%d] is nil; want a source of rules", i)
		}
	}
	names := make(map[string]int)
	for i, k := range c.RuleKeepers {
		if isNil(k) {
			fault("RuleKeepers[%d] is nil; want a keeper of rules", i)
			continue
		}
		name := k.Source()
		if name == "" {
			fault("RuleKeepers[%d] has no name; want one", i)
		}
		if other, twice := names[name]; twice {
			fault("RuleKeepers[%d] has the name %.64q, as RuleKeepers[%d]; want another", i, name, other)
		}
		names[name] = i
	}
	if c.MaxViewers < 0 || c.MaxViewers > maxMaxViewers {
		fault("MaxViewers is %d; want 1 to %d, or 0 for %d", c.MaxViewers, maxMaxViewers, defaultMaxViewers)
		c.MaxViewers = 0
	}
	if c.MaxViewers == 0 {
		c.MaxViewers = defaultMaxViewers
	}
	if c.MaxViewersPerAddress < 0 || c.MaxViewersPerAddress > c.MaxViewers {
		fault("MaxViewersPerAddress is %d; want 1 to MaxViewers, which is %d, or 0 for half of it", c.MaxViewersPerAddress, c.MaxViewers)
	}
	if c.MaxViewersPerAddress == 0 {
		c.MaxViewersPerAddress = (c.MaxViewers + 1) / 2
	}
	if c.HistoryBytes != 0 && c.HistoryBytes < minHistoryBytes {
		fault("HistoryBytes is %d; want at least %d, or 0 for %d", c.HistoryBytes, minHistoryBytes, defaultHistoryBytes)
	}
	if c.HistoryBytes != 0 && !c.KeepHistory {
		fault("HistoryBytes is %d and KeepHistory is not set; want both or neither", c.HistoryBytes)
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = defaultHistoryBytes
	}
	if c.ShowKeys > Nobody {
		fault("ShowKeys is %v; want Editors, Everybody or Nobody", c.ShowKeys)
	}
	if c.Address == nil {
		c.Address = leaphttp.MustAddress(leaphttp.AddressConfig{}).Key
	}
	if c.RuleKeepers != nil && c.Authorize == nil {
		fault("RuleKeepers are set and Authorize is not; want both, for nobody may change rules otherwise")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return errors.Join(faults...)
}

// isNil reports whether a value is nil, or a pointer that is, which would panic when it is asked.
func isNil(v any) bool {
	p := reflect.ValueOf(v)
	return v == nil || p.Kind() == reflect.Pointer && p.IsNil()
}
