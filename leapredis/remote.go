package leapredis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/limit"
)

// remote is what all limiters here have: their terms, a link to the servers, and the processes
// that they share them with.
type remote struct {
	terms
	cfg       Config
	link      *link
	instances instances
	beside    beside
	ended     atomic.Bool

	_          [64]byte // what changes with every call has a line of its own
	allowed    atomic.Int64
	refused    atomic.Int64
	overlooked atomic.Int64 // of allowed
	degraded   atomic.Int64
	_          [64]byte
}

func (c *remote) begin(cfg *Config, l *link) {
	c.init(cfg)
	c.cfg, c.link = *cfg, l
	c.instances.init(cfg, l, &c.beside)
	c.instances.failed = func(err *ReplyError) { c.foreign(err, c.cfg.Prefix) }
}

// wire is the name of a key on the server. An empty pair of braces ends the prefix, which has
// no brace itself: so no two limiters meet where the prefix of one begins with that of the
// other, and neither do a key and the prefix alone, under which processes are counted. And
// since it is the first pair, and empty, no server of a Cluster takes a part of the name for
// all of it when it chooses a slot: nobody can aim all keys at one server.
func (c *remote) wire(key string) string { return c.cfg.Prefix + "{}" + key }

// check returns what is wrong with a call, if anything.
func (c *remote) check(ctx context.Context, key string, n int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	switch {
	case n < 0:
		return fmt.Errorf("%w: %d; want 0 or more", limit.ErrCount, n)
	case c.ended.Load():
		return limit.ErrClosed
	case ctx != nil:
		return ctx.Err()
	}
	return nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty; want 1 to %d bytes", limit.ErrKey, limit.MaxKeyLength)
	case len(key) > limit.MaxKeyLength:
		return fmt.Errorf("%w: %.32q… has %d bytes; want 1 to %d", limit.ErrKey, key, len(key), limit.MaxKeyLength)
	}
	return nil
}

// unanswered returns the error for a caller whose ctx has ended, and nil where no server has
// decided otherwise: then the fallback does.
func (c *remote) unanswered(err error, key string) error {
	if replied := replyOf(err); replied != nil {
		c.foreign(replied, c.wire(key))
		return nil
	}
	if errors.Is(err, ErrAway) {
		return nil
	}
	return err // ctx has ended
}

// count counts the answer to a call.
func (c *remote) count(d *limit.Decision) {
	switch {
	case d.WouldRefuse:
		c.overlooked.Add(1)
		fallthrough
	case d.Allowed:
		c.allowed.Add(1)
	default:
		c.refused.Add(1)
	}
	if d.Degraded {
		c.degraded.Add(1)
	}
}

func (c *remote) stats() limit.Stats {
	_, away := c.link.state()
	s := limit.Stats{
		Allowed: c.allowed.Load(), Refused: c.refused.Load(), Degraded: c.degraded.Load(),
		WouldRefuse: c.overlooked.Load(),
		Away:        away > 0,
	}
	if most := c.limit.Load(); c.cfg.WhenAway == Local && most > 0 {
		s.NoShare = c.instances.count().share(most) == 0
	}
	return s
}

// Link returns the figures of the link to the servers. They are read one after the other.
func (c *remote) Link() Link {
	state, away := c.link.state()
	l := Link{
		State: state, Away: away, Openings: c.link.servers.openings.Load() + c.link.denials.Load(),
		RoundTrips: c.link.trips.Load(), Failures: c.link.failures.Load(),
		Instances: c.instances.count().processes,
	}
	if c.cfg.WhenAway == Local {
		l.Share = c.instances.count().share(c.limit.Load())
	}
	return l
}
