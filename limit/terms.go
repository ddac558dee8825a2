package limit

import (
	"maps"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/rule"
)

// Limits of a key that are no numbers, for [Config.LimitFor] and for calls with a limit of their own.
const (
	// Exempt admits all calls of a key, and counts none.
	Exempt int64 = -1
	// Default is the limit of the limiter.
	Default int64 = -2
)

// terms are what a limiter admits, besides how it counts. They may change while it runs.
type terms struct {
	name     string
	maxLimit int64
	limitFor func(key string) int64 // nil: all keys have the limit
	limit    atomic.Int64
	mode     atomic.Uint32         // a rule.Mode
	single   atomic.Pointer[plans] // nil: all keys have the limit
}

// plans are the limits of single keys.
type plans struct {
	byKey map[string]int64       // not changed
	other func(key string) int64 // of those that are not in byKey; nil: they have the limit
}

func (p *plans) limitOf(key string) int64 {
	if limit, named := p.byKey[key]; named {
		return limit
	}
	if p.other == nil {
		return Default
	}
	return p.other(key)
}

func (t *terms) init(cfg Config) {
	t.name, t.maxLimit, t.limitFor = cfg.Name, cfg.MaxLimit, cfg.LimitFor
	t.setPlans(nil)
	t.limit.Store(cfg.Limit)
	t.mode.Store(uint32(cfg.Mode))
}

// SetLimit changes the limit, for the calls that come from now on: 0 to Config.MaxLimit.
// What was counted stays. Keys for which Config.LimitFor returns a limit keep theirs. The
// error is [ErrCount], and nothing has changed then.
func (t *terms) SetLimit(limit int64) error {
	if limit < 0 || limit > t.maxLimit {
		return badLimit(limit, t.maxLimit)
	}
	t.limit.Store(limit)
	return nil
}

// MaxLimit returns Config.MaxLimit, up to which limits may be changed.
func (t *terms) MaxLimit() int64 { return t.maxLimit }

// SetPlans sets limits of single keys, for the calls that come from now on: by key,
// 0 to Config.MaxLimit, or [Exempt]. They take the place of those that were set before; nil are
// none. What was counted stays. They come before Config.LimitFor, which is asked for the
// other keys. The map is copied. The error is [ErrKey] or [ErrCount], and nothing has
// changed then.
func (t *terms) SetPlans(byKey map[string]int64) error {
	for key, limit := range byKey {
		switch {
		case key == "" || len(key) > MaxKeyLength:
			return badKey(key)
		case limit < Exempt || limit > t.maxLimit:
			return badLimit(limit, t.maxLimit)
		}
	}
	t.setPlans(maps.Clone(byKey))
	return nil
}

func (t *terms) setPlans(byKey map[string]int64) {
	if len(byKey) == 0 && t.limitFor == nil {
		t.single.Store(nil)
		return
	}
	t.single.Store(&plans{byKey, t.limitFor})
}

// SetMode changes Config.Mode, for the calls that come from now on. What was counted stays.
// The error is [ErrConfig], if there is no such mode, and nothing has changed then.
func (t *terms) SetMode(mode rule.Mode) error {
	if mode > rule.Off {
		return &ConfigError{Limiter: "limiter", Name: t.name, Field: "Mode", Value: uint8(mode), Want: wantMode}
	}
	t.mode.Store(uint32(mode))
	return nil
}

// limitOf returns the limit of a call: of its own, or of its key.
func (t *terms) limitOf(key string, own int64) (int64, error) {
	if own == Default && t.single.Load() == nil {
		return t.limit.Load(), nil
	}
	return t.specialLimit(key, own)
}

//go:noinline
func (t *terms) specialLimit(key string, limit int64) (int64, error) {
	if single := t.single.Load(); limit == Default && single != nil {
		limit = single.limitOf(key)
	}
	switch {
	case limit == Default:
		return t.limit.Load(), nil
	case limit < Exempt || limit > t.maxLimit:
		return 0, badLimit(limit, t.maxLimit)
	}
	return limit, nil
}

// enforces reports whether what is beyond a limit is refused.
func (t *terms) enforces(limit int64) bool {
	return limit >= 0 && t.mode.Load() == uint32(rule.Enforce)
}

// counts reports whether calls are counted.
func (t *terms) counts(limit int64) bool { return limit >= 0 && t.mode.Load() != uint32(rule.Off) }
