package limit

// Bucketed counts exactly in buckets: for each key, what was admitted in each of
// Config.Buckets parts of Window. It bounds the aligned window of whole buckets, or
// with Config.Strict every window of that length, wherever it begins, without the memory
// of a [Log]; room comes back a bucket at a time. It is what the rules of package flow
// are made of.
//
// Without Strict, two bursts a little more than Window − Window/Buckets apart may both
// pass: twice the Limit in a true window. With it, never more than Limit; admissions
// leave up to a bucket later.
//
// A decision takes no lock, and allocates only when the first call after an edge opens
// a bucket. A refund is dropped when the bucket that was charged has ended.
//
// Make one with [NewBucketed].
type Bucketed struct{ core }

// NewBucketed makes a bucketed limiter. The error, if any, is [ErrConfig], and tells
// everything that is wrong with cfg as one or more [*ConfigError].
func NewBucketed(cfg Config) (*Bucketed, error) {
	if err := cfg.complete(kindBucketed); err != nil {
		return nil, err
	}
	return &Bucketed{newCore(cfg, newQuotas(cfg))}, nil
}
