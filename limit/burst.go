package limit

// NewBurst makes a limiter that admits Burst at once, and then evenly Limit per Window: for
// each key, a call every Window ÷ Limit, where up to Burst calls may come together after a
// rest. It is what others call a token bucket (Burst is its size, Limit ÷ Window the rate at
// which it fills) or a leaky bucket as a meter; the algorithm is the generic cell rate
// algorithm, GCRA (ITU-T I.371), which keeps one time for each key.
//
// In one true window, wherever it begins, at most Limit + Burst − 1 are admitted. Nobody has
// to wait for a whole window: the next call passes after Window ÷ Limit at most.
//
// Times are exact to fractions of a nanosecond: 3 in a second are 3 in every second, never 4
// and never 2. A decision takes a lock, one for each key. An older time than the key has seen
// is not taken for the latest: until that is reached again, less passes.
//
// A key holds a number of calls, which the limit pays off. SetLimit, Config.LimitFor and
// AllowLimit change how fast that goes, from the next call of the key on, admitted or refused, and
// not how many there are. A settlement of more than was charged adds to them, however long that takes. A refund gives
// back what was charged less what was paid off since then, in which time it would have been paid
// off if others had not come: all of it at once, nothing when that time is over, and nothing while
// calls wait for their turns, except for the last of these. It is computed with the higher of the
// limits of the charge and of the key's last call: if the limit was higher in between, the refund
// may be too large.
//
// [RateLimiter.Wait] reserves: calls that wait have turns, in the order in which they came. A
// turn is lost if the caller gives up while others wait behind it. Turns keep their times when the
// limit changes: until they have passed, a higher limit does not apply to what the key holds.
//
// [RateLimiter.SetBurst] changes Burst, which keeps what a key holds as well.
//
// The error, if any, is [ErrConfig], and holds everything that is wrong with cfg as one or
// more [*ConfigError].
func NewBurst(cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forBurst); err != nil {
		return nil, err
	}
	e := newGCRA(cfg)
	l := newRateLimiter(cfg, &e.store)
	l.gcra = e
	return l, nil
}

// SetBurst changes Config.Burst of a limiter that [NewBurst] has made, for the calls that come
// from now on: 1 to [MaxLimit], or 0 for as many as the limit. What was counted stays. The
// error is [ErrConfig], also for other limiters, and nothing has changed then.
func (l *RateLimiter) SetBurst(burst int64) error {
	want := wantBurst
	if l.gcra == nil {
		want = wantNoBurst
	}
	if l.gcra == nil || burst < 0 || burst > MaxLimit {
		return &ConfigError{Limiter: "limiter", Name: l.name, Field: "Burst", Value: burst, Want: want}
	}
	l.gcra.burst.Store(burst)
	return nil
}
