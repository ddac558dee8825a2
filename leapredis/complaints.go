package leapredis

import (
	"context"
	"sync"
	"time"
)

// complaints is what was logged of late, so that a fault that lasts is logged once an hour.
type complaints struct {
	mu   sync.Mutex
	last map[string]int64
}

const (
	complainEvery = time.Hour
	maxCauses     = 64 // what is beyond has been complained about in other words
)

// due reports whether something is to be logged now. If so, it is taken to be.
func (c *complaints) due(what string, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.last[what]
	if ok && now-last < int64(complainEvery) || !ok && len(c.last) >= maxCauses {
		return false
	}
	if c.last == nil {
		c.last = map[string]int64{}
	}
	c.last[what] = now
	return true
}

// report logs an error that the server replied although it answers, unless it is about a key.
func (l *link) report(f *fault) {
	said, key, value := "", "denied", f.denied
	switch {
	case f.about == aboutKey:
		return // RateLimiter and InFlight log it with the key's type
	case f.about == aboutWrites:
		said = "leapredis: the server rejects writes, and the policy decides the calls that need one"
		key, value = "error", loggable(f)
	case f.script == instancesScript:
		said = "leapredis: the server denies what the heartbeat needs, so the processes that share the limit are not counted"
	default:
		said = "leapredis: the server denies what decisions need, so it is taken for away"
	}
	if l.complaints.due(said+value, l.clock.Now()) {
		l.log().Error(said, key, value)
	}
}

// types are the types of values, as type_of.lua numbers them.
var types = [...]string{"unknown", "none", "string", "list", "set", "zset", "hash", "stream"}

// foreign logs that a key, by its name on the server, holds what no limiter of this kind
// wrote. It asks of what type the value is: beside
// the call, which does not wait for it.
func (c *remote) foreign(err *ReplyError, wire string) {
	said := "leapredis: a key holds what this limiter did not write, and the policy decides for it; is its prefix used by another?"
	if wire == c.cfg.Prefix {
		said = "leapredis: the key that counts the processes is used by another"
	}
	if !c.link.complaints.due(said, c.link.clock.Now()) {
		return
	}
	c.beside.run(func() {
		found := types[0]
		r, failed := c.link.do(context.Background(), &request{script: typeOfScript, key: wire})
		if failed == nil && r[0] > 0 && r[0] < int64(len(types)) {
			found = types[r[0]]
		}
		c.link.log().Error(said, "prefix", printable(c.cfg.Prefix), "holds", found, "error", printable(err.Text))
	})
}
