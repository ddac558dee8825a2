package limit

// NewLog makes an exact sliding-window log: for each key, the time of every admission in the
// last Window. Never, in any true window of that length, wherever it begins, are more than
// Limit admitted.
//
// A decision looks at the newest and the oldest admissions only, whatever the Limit; it
// takes a lock, one for each key. A key keeps 16 bytes for each admission in its window
// (those of one nanosecond together), in a ring that starts with four and doubles as
// needed, up to Limit; what settlements charge beyond the limit takes more. It is exact,
// also after refunds and settlements, whenever they come, as long as Config.MaxBytes has
// memory for it. A log is for limits that must not be exceeded by one, and that are not much
// larger than some thousands.
//
// The error, if any, is [ErrConfig], and holds everything that is wrong with cfg as one or
// more [*ConfigError].
func NewLog(cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forLog); err != nil {
		return nil, err
	}
	return newRateLimiter(cfg, &newExactLog(cfg).store), nil
}
