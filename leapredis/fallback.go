package leapredis

import (
	"context"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// AssumedInstances is how many processes at least are taken to share a limit, with [Local]
// and without Config.Instances, before all could be counted, and when that was long ago.
const AssumedInstances = 10

type fallback struct {
	cfg       limit.Config // for the limiter of Local, but for the limit
	log       bool
	policy    Policy
	limit     int64
	window    time.Duration
	instances *instances

	mu    sync.Mutex         // guards what is below
	local *limit.RateLimiter // nil: not needed yet
	share int64              // the limit of local
	used  time.Time          // when it was used last
	ended bool
}

func (f *fallback) init(cfg *Config, log bool, i *instances) {
	f.cfg = limit.Config{Name: cfg.Name, Window: cfg.Window, MaxKeys: cfg.MaxKeys}
	f.log, f.policy, f.limit, f.window, f.instances = log, cfg.WhenAway, cfg.Limit, cfg.Window, i
}

// limiter returns the limiter of Local, and how much more than this process's share it has. It
// is made anew when the number of processes has changed, but not before the last one holds
// nothing any more: nobody is to have two shares at once.
func (f *fallback) limiter() (l *limit.RateLimiter, over int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, 0, limit.ErrClosed
	}
	share := f.instances.share(f.limit)
	now := time.Now()
	if f.local == nil || share != f.share && now.Sub(f.used) > 2*f.window {
		cfg := f.cfg
		cfg.Limit = share
		if f.log {
			f.local, err = limit.NewLog(cfg)
		} else {
			f.local, err = limit.NewCounter(cfg)
		}
		if err != nil {
			return nil, 0, err
		}
		f.share = share
	}
	f.used = now
	return f.local, max(0, f.share-share), nil
}

// within makes a decision of l, which has more than this process's share, into one of that
// share. It was taken before it is looked whether it may be, so nothing is admitted beyond.
func within(ctx context.Context, l *limit.RateLimiter, over int64, key string, n int64, d *limit.Decision) {
	if d.Allowed && d.Remaining-max(0, 1-n) < over {
		if n > 0 {
			_ = l.Refund(ctx, key, *d, n)
		}
		d.Allowed, d.Remaining, d.Charged, d.Ticket = false, d.Remaining+n, 0, 0
	}
	d.Limit -= over
	d.Remaining = max(0, d.Remaining-over)
	switch {
	case d.Allowed:
	case max(1, n) > d.Limit:
		d.RetryAfter = limit.Never
	default:
		d.RetryAfter = d.ResetAfter // it may pass before
	}
}

func (f *fallback) decide(ctx context.Context, key string, n int64, retryAfter time.Duration) (d limit.Decision, err error) {
	switch f.policy {
	case Local:
		l, over, err := f.limiter()
		if err != nil {
			return d, err
		}
		if d, err = l.AllowN(ctx, key, n); err != nil {
			return d, err
		}
		if over > 0 {
			within(ctx, l, over, key, n, &d)
		}
		if !d.Allowed && d.RetryAfter == limit.Never && n <= f.limit {
			d.RetryAfter = f.window // it is more than this process's share
		}
	case Allow:
		d = limit.Decision{Name: f.cfg.Name, Limit: f.limit, Allowed: n <= f.limit && f.limit > 0, Remaining: f.limit}
		if d.Allowed {
			d.Charged = n
		} else {
			d.RetryAfter = limit.Never
		}
	default:
		d = limit.Decision{Name: f.cfg.Name, Limit: f.limit, RetryAfter: retryAfter, Unavailable: true}
		if n > f.limit || f.limit == 0 {
			d.RetryAfter, d.Unavailable = limit.Never, false
		}
	}
	d.Degraded = true
	return d, nil
}

// existing is the limiter of Local, if there is one.
func (f *fallback) existing() *limit.RateLimiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.local
}

func (f *fallback) refund(ctx context.Context, key string, d limit.Decision, n int64) error {
	if l := f.existing(); l != nil {
		return l.Refund(ctx, key, d, n)
	}
	return nil
}

func (f *fallback) settle(ctx context.Context, key string, d limit.Decision, actual int64) error {
	if l := f.existing(); l != nil {
		return l.Settle(ctx, key, d, actual)
	}
	return nil
}

func (f *fallback) reset(key string) {
	if l := f.existing(); l != nil {
		l.Reset(key)
	}
}

func (f *fallback) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.local != nil {
		_ = f.local.Close()
	}
}
