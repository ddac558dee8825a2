package main

import (
	"context"
	"crypto/sha256"
	"time"
)

const (
	steps = 5                      // of a call
	burns = 500 * time.Microsecond // of a processor, in each
	waits = 20 * time.Millisecond  // after each
)

// work is what a call does: it computes, waits for somebody else's answer, and computes again.
type work struct{ rounds int }

// calibrate returns work that takes a processor for the time that it should.
func calibrate() work {
	const some = 1000
	least := time.Duration(1<<63 - 1)
	for range 50 { // for there are others on the machine
		began := time.Now()
		compute(some)
		least = min(least, time.Since(began))
	}
	return work{int(some * burns / least)}
}

func (w work) do(ctx context.Context) error {
	for range steps {
		if err := ctx.Err(); err != nil {
			return err // nobody waits for the answer any more
		}
		compute(w.rounds)
		time.Sleep(waits)
	}
	return ctx.Err()
}

func compute(rounds int) {
	var sum [sha256.Size]byte
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
}
