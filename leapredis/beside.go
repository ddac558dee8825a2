package leapredis

import "sync"

// beside is what is done beside calls, each in a goroutine of its own, until the limiter ends.
type beside struct {
	mu    sync.Mutex // guards ended, and busy against growing after it
	ended bool
	busy  sync.WaitGroup
}

func (b *beside) run(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.busy.Go(f)
	}
}

func (b *beside) close() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.busy.Wait()
}
