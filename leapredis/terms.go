package leapredis

import (
	"fmt"
	"maps"
	"math"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// terms are what a limiter admits, besides how it counts. They may change while it runs, in
// this process. As in package limit.
type terms struct {
	name     string
	maxLimit int64
	limitFor func(key string) int64 // nil: all keys have the limit
	limit    atomic.Int64
	mode     atomic.Uint32         // a rule.Mode
	plans    atomic.Pointer[plans] // nil: no key is named
}

// plans are the limits of single keys. They are not changed.
type plans map[string]int64

func (t *terms) init(cfg *Config) {
	t.name, t.maxLimit, t.limitFor = cfg.Name, cfg.MaxLimit, cfg.LimitFor
	t.limit.Store(cfg.Limit)
	t.mode.Store(uint32(cfg.Mode))
}

// SetLimit changes the limit, for the calls of this process that come from now on: 0 to
// Config.MaxLimit. What was counted stays, and so do leases until they end. Keys for which
// Config.LimitFor returns a limit, and those of SetPlans, keep theirs. The error is
// [limit.ErrCount], and nothing has changed then.
func (t *terms) SetLimit(limit int64) error {
	if limit < 0 || limit > t.maxLimit {
		return badLimit(limit, t.maxLimit)
	}
	t.limit.Store(limit)
	return nil
}

// MaxLimit returns Config.MaxLimit, up to which limits may be changed.
func (t *terms) MaxLimit() int64 { return t.maxLimit }

// SetPlans sets limits of single keys, for the calls of this process that come from now on: by
// key, 0 to Config.MaxLimit, or [limit.Exempt]. They take the place of those that were set
// before; nil are none. What was counted stays, and so do leases until they end. They come
// before Config.LimitFor, which is asked for the other keys. The map is copied. The error is
// [limit.ErrKey] or [limit.ErrCount], and nothing has changed then.
func (t *terms) SetPlans(byKey map[string]int64) error {
	for key, own := range byKey {
		if err := checkKey(key); err != nil {
			return err
		}
		if own < limit.Exempt || own > t.maxLimit {
			return badLimit(own, t.maxLimit)
		}
	}
	if len(byKey) == 0 {
		t.plans.Store(nil)
		return nil
	}
	named := plans(maps.Clone(byKey))
	t.plans.Store(&named)
	return nil
}

// SetMode changes Config.Mode, for the calls of this process that come from now on. What was
// counted stays. The error is [limit.ErrConfig], if there is no such mode, and nothing has
// changed then.
func (t *terms) SetMode(mode rule.Mode) error {
	if mode > rule.Off {
		return &limit.ConfigError{Limiter: "limiter", Name: t.name, Field: "Mode", Value: uint8(mode), Want: wantMode}
	}
	t.mode.Store(uint32(mode))
	return nil
}

// limitOf returns the limit of a call: of its own, or of its key.
func (t *terms) limitOf(key string, own int64) (int64, error) {
	if own == limit.Default {
		own = t.ownOf(key)
	}
	switch {
	case own == limit.Default:
		return t.limit.Load(), nil
	case own < limit.Exempt || own > t.maxLimit:
		return 0, badLimit(own, t.maxLimit)
	}
	return own, nil
}

// ownOf returns the limit that a key has of its own, or [limit.Default].
func (t *terms) ownOf(key string) int64 {
	if named := t.plans.Load(); named != nil {
		if own, ok := (*named)[key]; ok {
			return own
		}
	}
	if t.limitFor != nil {
		return t.limitFor(key)
	}
	return limit.Default
}

// enforces reports whether what is beyond the limit is refused.
func (t *terms) enforces() bool { return t.mode.Load() == uint32(rule.Enforce) }

// counts reports whether calls with that limit are counted.
func (t *terms) counts(limit int64) bool { return limit >= 0 && t.mode.Load() != uint32(rule.Off) }

// uncounted is the ticket of what no server has counted, so that nothing is settled either.
const uncounted = -1

// unlimited is the answer where nothing is counted.
func (t *terms) unlimited() limit.Decision {
	return limit.Decision{Allowed: true, Name: t.name, Limit: limit.Exempt, Remaining: math.MaxInt64, Ticket: uncounted}
}

// overlook makes what was decided into what a caller gets in mode Shadow.
func overlook(d *limit.Decision) {
	if !d.Allowed {
		d.Allowed, d.WouldRefuse, d.Unavailable, d.Ticket = true, true, false, uncounted
	}
	d.Limit, d.Remaining, d.MoreAfter, d.ResetAfter = limit.Exempt, math.MaxInt64, 0, 0
}

func badLimit(own, most int64) error {
	return fmt.Errorf("%w: a limit of %d; want 0 to %d, which is Config.MaxLimit", limit.ErrCount, own, most)
}
