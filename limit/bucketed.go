package limit

// NewBucketed makes a limiter that counts exactly in buckets: for each key, what was
// admitted in each of Config.Buckets parts of Window. It bounds the aligned window of whole
// buckets, or with Config.Strict every window of that length, wherever it begins, without
// the memory of [NewLog]; room comes back a bucket at a time.
//
// Without Strict, two bursts a little more than Window − Window/Buckets apart may both
// pass: twice the Limit in a true window. With it, never more than Limit; admissions
// leave up to a bucket later.
//
// It is a log whose times are the beginnings of the buckets. A decision takes a lock,
// one for each key. A key keeps 16 bytes for each bucket in which something of the window
// was admitted, in a ring that starts with four and doubles as needed, up to Buckets, or
// Buckets + 1 with Strict; see Config.MaxBytes. A refund goes back to the bucket that was
// charged, as long as it is in the window.
//
// The error, if any, is [ErrConfig], and holds everything that is wrong with cfg as one or
// more [*ConfigError].
func NewBucketed(cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forBucketed); err != nil {
		return nil, err
	}
	return newRateLimiter(cfg, &newBucketedLog(cfg).store), nil
}
