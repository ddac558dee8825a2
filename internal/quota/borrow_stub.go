package quota

import "time"

// Borrow is a stub.
func (q *Quota) Borrow(now, n, limit int64, maxWait time.Duration) Outcome {
	return q.Take(now, n, limit)
}
