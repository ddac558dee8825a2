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
	cfg       limit.Config // for the limiter of Local
	log       bool
	policy    Policy
	instances *instances

	mu    sync.Mutex         // guards what is below
	local *limit.RateLimiter // nil: not needed yet
	among census             // of those who have the shares that local was used with last
	used  time.Time          // when that was
	ended bool
}

func (f *fallback) init(cfg *Config, log bool, i *instances) {
	f.cfg = limit.Config{Name: cfg.Name, Limit: cfg.MaxLimit, Window: cfg.Window, MaxKeys: cfg.MaxKeys}
	f.log, f.policy, f.instances = log, cfg.WhenAway, i
}

// limiter returns the limiter of Local, and this process's share of a limit. When the number of
// processes has changed, the share gets larger only when nothing is held any more that was
// taken with the last one: nobody is to have two shares at once.
func (f *fallback) limiter(most int64) (l *limit.RateLimiter, share int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, 0, limit.ErrClosed
	}
	if f.local == nil {
		if f.log {
			f.local, err = limit.NewLog(f.cfg)
		} else {
			f.local, err = limit.NewCounter(f.cfg)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	among, now := f.instances.count(), time.Now()
	if now.Sub(f.used) > 2*f.cfg.Window {
		f.among = among
	}
	f.used = now
	return f.local, min(among.share(most), f.among.share(most)), nil
}

// decide decides what was asked under the limit of the call.
func (f *fallback) decide(ctx context.Context, key string, a asked, retryAfter time.Duration) (d limit.Decision, err error) {
	switch f.policy {
	case Local:
		l, share, err := f.limiter(a.limit)
		if err != nil {
			return d, err
		}
		n := a.n
		d, err = l.AllowLimit(ctx, key, n, share)
		for a.some && err == nil && !d.Allowed && n > 1 {
			n = max(1, min(n-1, d.Remaining))
			d, err = l.AllowLimit(ctx, key, n, share)
		}
		if err != nil {
			return d, err
		}
		if !d.Allowed && d.RetryAfter == limit.Never && a.needs() <= a.limit {
			d.RetryAfter = f.cfg.Window // it is more than this process's share
		}
	case Allow:
		d = limit.Decision{Name: f.cfg.Name, Limit: a.limit, Allowed: a.needs() <= a.limit, Remaining: a.limit}
		if d.Allowed {
			d.Charged = min(a.n, a.limit)
		} else {
			d.RetryAfter = limit.Never
		}
	default:
		d = limit.Decision{Name: f.cfg.Name, Limit: a.limit, RetryAfter: retryAfter, Unavailable: true}
		if a.needs() > a.limit {
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
