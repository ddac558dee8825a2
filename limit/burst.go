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
// What a key holds is time: how long it takes until all of Burst is there again. SetLimit and
// Config.LimitFor change how fast it is paid off from then on, and not how much it is. A
// settlement of more than was charged adds to it, however long that takes. A refund gives
// back what was charged less the time since then, in which it was paid off if others had not
// come meanwhile: all of it at once, and nothing when that time is over, or while calls wait.
//
// [RateLimiter.Wait] reserves: those who wait have turns, in the order in which they came. A
// turn is lost if the caller gives up while others wait behind it.
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
