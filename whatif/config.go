package whatif

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

// Config holds the rules to try. The zero Config has no rules, and reports how busy the keys were.
//
// Up to 10,000,000 keys are counted separately, and 10,000 resources besides those that rules name. The others are
// counted as one, and the report says so.
type Config struct {
	// Rules are the rules of the gate. Rules in mode shadow are tried as if they were enforced.
	Rules leapgate.Rules

	// Limits are limits per key by name, as in the limits of a rule file. They are checked before the rules, in the
	// order of their names. A request that a limit or a rule blocks gets back what it took from the others. Each
	// limit needs a Limit and a Window. It counts like [limit.NewCounter], or with a Burst like [limit.NewBurst].
	Limits map[string]rulefile.Limit

	// Arg is the name of the argument of param rules that the key of a request is. The default is "client".
	Arg string

	// Resolution is the precision of the times of requests, from 0, which means exact, to a minute. With 1s, the
	// requests of each second are spread evenly over it, in an arbitrary order that is always the same.
	Resolution time.Duration

	// Windows are the windows for which there is a [Curve], from 1ms to 366 days. The default is the windows of the
	// limits and rules per key, or one minute if there are none.
	Windows []time.Duration

	maxSameTime, maxWaiting int // for tests; the defaults are the constants
}

// check returns all that is wrong with the configuration besides the rules.
func (cfg *Config) check() error {
	var errs []error
	if cfg.Resolution < 0 || cfg.Resolution > time.Minute {
		errs = append(errs, fmt.Errorf("whatif: Resolution is %v; want 0 to 1m", cfg.Resolution))
	}
	for _, w := range cfg.Windows {
		if w < limit.MinWindow || w > limit.MaxWindow {
			errs = append(errs, fmt.Errorf("whatif: Windows has %v; want %v to %s each", w, limit.MinWindow, Duration(limit.MaxWindow)))
		}
	}
	return errors.Join(errs...)
}

// curves returns the windows for which there are curves.
func (cfg *Config) curves(t *trial) []time.Duration {
	all := slices.Clone(cfg.Windows)
	if len(all) == 0 {
		for i := range t.all {
			if r := &t.all[i]; r.perKey && r.rated {
				all = append(all, r.interval)
			}
		}
	}
	if len(all) == 0 {
		all = append(all, time.Minute)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Request is one request of a log.
type Request struct {
	At       time.Time     // arrival
	Resource string        // as rules name it: "GET /orders/{id}"
	Key      string        // as limits per key count: an address, a tenant
	Duration time.Duration // 0 if unknown
	Status   int           // of the response; 0 if unknown
	Cost     int64         // how much of a limit it consumes; 0 means 1
	Refused  bool          // it was blocked then; status 429 implies it
}

// Source yields the requests of a log in the order of their arrival, and finally an error if not all could be read.
// It yields the same requests each time it is called.
type Source = iter.Seq2[Request, error]
