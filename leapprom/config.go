package leapprom

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
)

// Config says what a collector exports. The zero Config is a good one.
type Config struct {
	// Gate is the value of the label "gate" of every series, so that several gates can
	// be in one registry: up to 255 bytes of UTF-8; "" is "default".
	Gate string

	// MaxResources limits the number of resources with series of their own that no rule names, from 1 to
	// 1,000,000. The default is 1,000. First come, first served. Resources that a rule names always have
	// series. Of names with the same label value, only the first has series.
	//
	// A resource has 23 series, or 6 where Prometheus reads native histograms, and 5 or
	// more for each of its rules.
	MaxResources int

	// NativeOnly leaves the classic buckets of the response times out. Scrapers that do
	// not read native histograms see their count and their sum then, no more.
	NativeOnly bool

	// Buckets are the upper edges of the classic buckets of response and wait times, in seconds: 1 to 64 of them,
	// rising, each 1 µs to 100 s and at least 1.1 times the one before. Times are counted more finely than
	// that, but not to the edge: a bucket has those up to the edge of a native one that is nearest, at most
	// 4.4 % off. Powers of 2 are exact. Nil is 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 300 and 500 ms and 1, 2.5, 5 and 10 s. With
	// NativeOnly it must be nil.
	Buckets []float64

	// Limiters are exported beside the gate. Each must have a name (limit.Config.Name),
	// which is not that of another one.
	Limiters []Limiter

	// RuleSources are exported beside the gate: whether rules could be loaded from them, so
	// that a file that is refused is heard of. Each must have a name of its own.
	RuleSources []RuleSource
}

// RuleSource is where rules of the gate come from, and may fail to. A *rulefile.Watcher is one.
// Its methods must be safe for concurrent use.
type RuleSource interface {
	// Source returns its name, as in the Source of its rules. It is the same at every call.
	Source() string
	// LastLoad returns when rules were last loaded from it, zero if they never were, and why
	// what it holds now could not be loaded, nil if it could.
	LastLoad() (at time.Time, err error)
}

// Limiter is a limiter with figures. [limit.RateLimiter] is one; of a [limit.Group], give the members.
type Limiter interface {
	limit.Describer
	Stats() limit.Stats
}

const (
	defaultGate         = "default"
	defaultMaxResources = 1000
	maxMaxResources     = 1_000_000
)

// ErrConfig is what every error of [New] is.
var ErrConfig = errors.New("leapprom: bad configuration")

// complete fills in the defaults, and returns the limiters and the sources with their labels; or
// every fault.
func (cfg *Config) complete(gate *leapgate.Gate) (limiters []*limiter, sources []*ruleSource, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	if gate == nil {
		fault("the gate is nil; want one")
	}
	if cfg.Gate == "" {
		cfg.Gate = defaultGate
	}
	if !utf8.ValidString(cfg.Gate) || len(cfg.Gate) > maxLabelLength {
		fault("Gate is %.40q (%d bytes); want up to %d bytes of UTF-8", cfg.Gate, len(cfg.Gate), maxLabelLength)
	}
	if cfg.MaxResources < 0 || cfg.MaxResources > maxMaxResources {
		fault("MaxResources is %d; want 1 to %d, or 0 for %d", cfg.MaxResources, maxMaxResources, defaultMaxResources)
	}
	if cfg.MaxResources == 0 {
		cfg.MaxResources = defaultMaxResources
	}
	cfg.completeBuckets(fault)
	first := make(map[string]int)
	for i, l := range cfg.Limiters {
		if l == nil {
			fault("Limiters[%d] is nil; want a limiter", i)
			continue
		}
		described := l.Describe()
		if len(described) != 1 {
			fault("Limiters[%d] describes %d limits; want one: give each by itself", i, len(described))
			continue
		}
		name := label(described[0].Name)
		if name == "" {
			fault("Limiters[%d] has no name; want one in limit.Config.Name", i)
			continue
		}
		if other, taken := first[name]; taken {
			fault("Limiters[%d] has the name %q, as Limiters[%d]; want another", i, name, other)
			continue
		}
		first[name] = i
		limiters = append(limiters, newLimiter(l, described[0], name, cfg.Gate))
	}
	clear(first)
	for i, r := range cfg.RuleSources {
		if isNil(r) {
			fault("RuleSources[%d] is nil; want a source of rules", i)
			continue
		}
		name := label(r.Source())
		if name == "" {
			fault("RuleSources[%d] has no name; want one", i)
			continue
		}
		if other, taken := first[name]; taken {
			fault("RuleSources[%d] has the name %q, as RuleSources[%d]; want another", i, name, other)
			continue
		}
		first[name] = i
		sources = append(sources, &ruleSource{r, pairs("gate", cfg.Gate, "source", name)})
	}
	return limiters, sources, errors.Join(faults...)
}

func (cfg *Config) completeBuckets(fault func(format string, args ...any)) {
	switch {
	case cfg.NativeOnly && cfg.Buckets != nil:
		fault("NativeOnly is set and there are %d Buckets; want one of both", len(cfg.Buckets))
		return
	case cfg.Buckets == nil:
		cfg.Buckets = defaultBuckets
		return
	case len(cfg.Buckets) == 0 || len(cfg.Buckets) > maxBuckets:
		fault("there are %d Buckets; want 1 to %d, or nil", len(cfg.Buckets), maxBuckets)
		return
	}
	for i, edge := range cfg.Buckets {
		if !(edge >= lowestBucket && edge <= mostBucket) { // NaN compares false
			fault("Buckets[%d] is %v; want %v to %v, in seconds", i, edge, lowestBucket, mostBucket)
		} else if i > 0 && edge < leastApart*cfg.Buckets[i-1] {
			fault("Buckets[%d] is %v; want at least 1.1 times the one before, which is %v", i, edge, cfg.Buckets[i-1])
		}
	}
	cfg.Buckets = slices.Clone(cfg.Buckets)
}
