package leapredis

import "github.com/leapgate-go/leapgate/limit"

// Link is the figures of a limiter's link to the servers. The numbers count from when
// the limiter was made, and those of State, Away and Openings from when the first of those
// limiters was that share a client and have the same Timeout: they share what they know of
// its servers. A server that denies something to this limiter's scripts is away for this one
// alone.
type Link struct {
	State    State // Open if any server is away
	Away     int   // servers that are away; at most 1 if the client cannot name them
	Openings int64 // how often a server went away

	RoundTrips int64 // scripts that were sent, of any kind; not those that were sent late or again with their text
	Failures   int64 // those that were not answered in time, or with an error

	Instances int64 // how many processes share the limit: given, counted, or [AssumedInstances]
	Share     int64 // with [Local], the limit with which this one answers while no server does; else 0

	Leases   int64 // round trips that took more permits than were asked for
	Leased   int64 // calls that were admitted from leases
	Returned int64 // permits that were given back when their lease ended
}

// Stats returns the figures that all limiters have: of what this process keeps of keys, and
// how it has answered. They are read one after the other.
func (c *RateLimiter) Stats() limit.Stats {
	s := c.stats()
	s.Keys, s.MaxKeys, s.Expired, s.Evicted = c.keys.Len(), c.keys.Max(), c.keys.Expired(), c.keys.Evicted()
	if c.leases != nil {
		s.Allowed += c.leases.served.Load()
	}
	return s
}

// Link returns the figures of the link to the servers. They are read one after the other.
func (c *RateLimiter) Link() Link {
	l := c.remote.Link()
	if c.leases != nil {
		l.Leases, l.Returned = c.leases.made.Load(), c.leases.returned.Load()
		l.Leased = c.leases.served.Load()
	}
	return l
}
