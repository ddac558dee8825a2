package limit

import (
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
	mode     atomic.Uint32 // a rule.Mode
}

func (t *terms) init(cfg Config) {
	t.name, t.maxLimit, t.limitFor = cfg.Name, cfg.MaxLimit, cfg.LimitFor
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
	if own == Default && t.limitFor == nil {
		return t.limit.Load(), nil
	}
	return t.specialLimit(key, own)
}

//go:noinline
func (t *terms) specialLimit(key string, limit int64) (int64, error) {
	if limit == Default && t.limitFor != nil {
		limit = t.limitFor(key)
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
