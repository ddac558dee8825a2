package leapredis

import (
	"context"
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// algorithm is what Counter and Log differ in.
type algorithm interface {
	// decide asks a server: see the scripts for most.
	decide(ctx context.Context, key string, n, most int64) (reply, error)
	// read makes a reply to n into a decision, except for its name and what was charged.
	read(r reply, n int64) limit.Decision
	// recall makes the decision that refuses n some time after that reply, which refused,
	// if that is certain without asking.
	recall(r *refusal, past time.Duration, n int64) (d limit.Decision, certain bool)
	// refund gives back n to what a decision's ticket tells.
	refund(ctx context.Context, key string, ticket, n int64) error
	// giveBack gives back what was admitted by a call whose caller has gone.
	giveBack(c *call)
	reset(ctx context.Context, key string) error
	// back is called when the server is back.
	back()
}

// refusal is what is remembered of a refusal.
type refusal struct {
	sent  int64 // when the server was asked: what it told was not earlier
	until int64 // it is not believed any more
	n     int64
	reply reply
}
