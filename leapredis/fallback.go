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
	cfg       limit.Config // for the limiter of Local, with all of Burst
	twin      func(limit.Config) (*limit.RateLimiter, error)
	idle      time.Duration // nothing is held any more that was taken before
	policy    Policy
	instances *instances

	mu    sync.Mutex         // guards what is below
	local *limit.RateLimiter // nil: not needed yet
	burst int64              // of local
	among census             // of the processes that have the shares that local was used with last
	used  time.Time          // when that was
	ended bool
}

func (f *fallback) init(cfg *Config, twin func(limit.Config) (*limit.RateLimiter, error), i *instances) {
	f.cfg = limit.Config{Name: cfg.Name, Limit: cfg.MaxLimit, Window: cfg.Window, MaxKeys: cfg.MaxKeys, Burst: cfg.Burst}
	f.twin, f.policy, f.instances = twin, cfg.WhenAway, i
	windows := 2 + cfg.Burst/max(1, cfg.Limit)
	f.idle = time.Duration(min(windows, int64(limit.Never/cfg.Window))) * cfg.Window
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
	among, now := f.instances.count(), time.Now()
	if f.local == nil || now.Sub(f.used) > f.idle {
		f.among = among
		if burst := f.burstAmong(among); f.local == nil || burst != f.burst {
			cfg := f.cfg
			cfg.Burst = burst
			if f.local, err = f.twin(cfg); err != nil {
				return nil, 0, err
			}
			f.burst = burst
		}
	}
	f.used = now
	return f.local, min(among.share(most), f.among.share(most)), nil
}

// burstAmong is this process's share of Burst: one at least, since without none ever passes.
func (f *fallback) burstAmong(all census) int64 {
	if f.cfg.Burst == 0 {
		return 0
	}
	return max(1, all.share(f.cfg.Burst))
}

// decide decides what was asked under the limit of the call, of which so many may pass at once.
func (f *fallback) decide(ctx context.Context, key string, a asked, most int64, retryAfter time.Duration) (d limit.Decision, err error) {
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
		if !d.Allowed && d.RetryAfter == limit.Never && a.needs() <= most {
			d.RetryAfter = f.cfg.Window // it is more than this process's share
		}
	case Allow:
		d = limit.Decision{Name: f.cfg.Name, Limit: a.limit, Allowed: a.needs() <= most, Remaining: most}
		if d.Allowed {
			d.Charged = min(a.n, most)
		} else {
			d.RetryAfter = limit.Never
		}
	default:
		d = limit.Decision{Name: f.cfg.Name, Limit: a.limit, RetryAfter: retryAfter, Unavailable: true}
		if a.needs() > most {
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
