package limit

import "time"

// tellMore sets MoreAfter of what was decided about n of key.
func (c *core) tellMore(d *Decision, now int64, key string, n int64) {
	if !d.Allowed && d.Remaining == 0 && n <= 1 {
		d.MoreAfter = d.RetryAfter
		return
	}
	d.MoreAfter = c.more(now, key, d.Remaining)
}

// more is how long from now no more than what remains can be used.
func (c *core) more(now int64, key string, remaining int64) time.Duration {
	if e, ok := c.engine.(interface {
		more(now int64, key string) time.Duration
	}); ok {
		return e.more(now, key)
	}
	if remaining >= c.limit && remaining > 0 {
		return 0 // nothing is held
	}
	// What is held leaves in the order in which it came, so it does not matter when the
	// rest is used: the next one passes when one more than that would.
	return c.engine.decide(now, key, remaining+1, false).RetryAfter
}

// more is how long after the tally the next one passes if all that remains is used with it.
// In the next window that weighs less than what is used then. It is not told, as by the other
// limiters, where nothing is held.
func (s *sliding) more(t tally) time.Duration {
	held := s.held(&t)
	switch {
	case s.limit == 0:
		return Never
	case held == 0:
		return 0
	}
	t.current += max(0, s.limit-held)
	return s.wait(&t, 1)
}

func (e *narrow) more(now int64, key string) time.Duration {
	number, elapsed := e.split(now)
	t := tally{number: number, elapsed: elapsed}
	c := e.keys.Find(e.keys.Hash(key), key)
	if c == nil {
		c = e.shared
	}
	if c != nil {
		if word, held := e.read(c, number, elapsed); word&countMask != dead {
			t = held
		}
	}
	return e.sliding.more(t)
}

func (e *wide) more(now int64, key string) time.Duration {
	number, elapsed := e.split(now)
	t := tally{number: number, elapsed: elapsed}
	node := e.keys.Find(e.keys.Hash(key), key)
	if node == nil {
		node = e.shared
	}
	if node != nil {
		a := &node.Value
		a.mu.Lock()
		defer a.mu.Unlock()
		t = a.at(e, now)
	}
	return e.sliding.more(t)
}
