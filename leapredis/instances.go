package leapredis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
)

const (
	beatEvery = 2 * time.Second  // with real traffic
	beatLasts = 10 * time.Second // a process that was not heard of for so long is not counted
)

// instances is how many processes share the limit. They are counted with a key on the
// server, whose name is the prefix alone: no other key has that.
type instances struct {
	link  *link
	clock *clock.Clock
	key   string
	name  string // of this process; empty: they need not be counted
	given int64

	counted atomic.Int64 // 0: not yet
	heard   atomic.Int64 // when all were counted last
	begun   atomic.Int64 // since when this one is counted without a break
	beaten  atomic.Int64 // when the last heartbeat was sent
	busy    sync.WaitGroup
	mu      sync.Mutex // guards ended, and busy against growing after it
	ended   bool
}

func (i *instances) init(cfg *Config, l *link) {
	i.link, i.clock, i.key, i.given = l, &l.clock, cfg.Prefix, int64(cfg.Instances)
	if cfg.WhenAway == Local && cfg.Instances == 0 {
		var name [8]byte
		_, _ = rand.Read(name[:]) // it never fails
		i.name = hex.EncodeToString(name[:])
	}
}

// count is how many there are, as far as is known. A process that has long not asked when
// the server goes away was not counted by the others, nor has it counted those that came.
func (i *instances) count() int64 {
	if i.given > 0 {
		return i.given
	}
	at := i.clock.Now()
	if b := &i.link.servers.part(i.key).breaker; b.state() != Closed {
		at = b.since.Load()
	}
	n := i.counted.Load()
	if n > 0 && at-i.heard.Load() <= int64(beatLasts) {
		return n
	}
	return max(n, AssumedInstances)
}

// beat sends a heartbeat if it is time. The caller does not wait for it.
func (i *instances) beat() {
	if i.name == "" {
		return
	}
	now, last := i.clock.Now(), i.beaten.Load()
	if last != 0 && now-last < int64(beatEvery) || !i.beaten.CompareAndSwap(last, now) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return
	}
	i.busy.Go(func() {
		if r, err := i.send(beatLasts); err == nil {
			i.learn(r[0], r[1] == 1)
		}
	})
}

// learn takes what the server has counted. Where this process is new, the server may have
// begun to count just now, and have heard of few. It has heard of all once this one has been
// counted as long as any is without asking.
func (i *instances) learn(n int64, isNew bool) {
	now := i.clock.Now()
	if isNew {
		i.begun.Store(now)
	}
	if now-i.begun.Load() >= int64(beatLasts) {
		i.heard.Store(now)
		i.counted.Store(n)
	} else if n > i.counted.Load() {
		i.counted.Store(n)
	}
}

func (i *instances) send(lasts time.Duration) (reply, error) {
	var a args
	a.add(i.name)
	a.addInt(lasts.Microseconds())
	return i.link.do(context.Background(), i.link.deadline(), &request{script: instancesScript, key: i.key, args: a})
}

// close ends the heartbeat.
func (i *instances) close() {
	i.mu.Lock()
	i.ended = true
	i.mu.Unlock()
	i.busy.Wait()
	if i.counted.Load() > 0 {
		_, _ = i.send(0) // else it ends by itself
	}
}
