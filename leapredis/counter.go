package leapredis

import (
	"context"

	"github.com/leapgate-go/leapgate/limit"
)

// Counter is the sliding-window counter of [limit.Counter], shared by many processes.
//
// Make one with [NewCounter].
type Counter struct{ core }

// NewCounter makes a counter.
func NewCounter(client Client, cfg Config) (*Counter, error) {
	if err := cfg.complete(kindCounter, client); err != nil {
		return nil, err
	}
	return &Counter{core{cfg: cfg, client: client}}, nil
}

// Log is the exact sliding-window log of [limit.Log], shared by many processes.
//
// Make one with [NewLog].
type Log struct{ core }

// NewLog makes a log.
func NewLog(client Client, cfg Config) (*Log, error) {
	if err := cfg.complete(kindLog, client); err != nil {
		return nil, err
	}
	return &Log{core{cfg: cfg, client: client}}, nil
}

// core is what the limiters have in common.
type core struct {
	cfg    Config
	client Client
}

// State is the state of the breaker.
type State uint8

// The states.
const (
	Closed State = iota
	Open
	HalfOpen
)

// Stats is the figures of a limiter.
type Stats struct {
	State      State
	RoundTrips int64 // scripts that were sent
	Failures   int64 // those that were not answered in time, or with an error
	Openings   int64 // how often the breaker opened
	Leases     int64 // round trips that took more permits than were asked for
	Leased     int64 // permits of those that were served without asking
	HandedBack int64
}

func (c *core) Allow(ctx context.Context, key string) (limit.Decision, error) {
	return c.AllowN(ctx, key, 1)
}

func (c *core) AllowN(ctx context.Context, key string, n int64) (limit.Decision, error) {
	return limit.Decision{}, nil
}

func (c *core) Peek(ctx context.Context, key string) (limit.Decision, error) {
	return limit.Decision{}, nil
}

func (c *core) Reset(ctx context.Context, key string) error { return nil }

func (c *core) Refund(ctx context.Context, key string, d limit.Decision, n int64) error { return nil }

func (c *core) Settle(ctx context.Context, key string, d limit.Decision, actual int64) error {
	return nil
}

// Describe gives the one limit.
func (c *core) Describe() []limit.Description {
	return []limit.Description{{Name: c.cfg.Name, Limit: c.cfg.Limit, Window: c.cfg.Window}}
}

// Remote is true: limit.All and leaphttp ask it first.
func (c *core) Remote() bool { return true }

// Stats gives the figures that all limiters have.
func (c *core) Stats() limit.Stats { return limit.Stats{} }

// Link gives the figures of the link to the servers.
func (c *core) Link() Stats { return Stats{} }

// Close ends the limiter.
func (c *core) Close() error { return nil }
