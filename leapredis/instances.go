package leapredis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
)

const (
	beatEvery = 2 * time.Second  // with real traffic
	beatLasts = 10 * time.Second // a process that was not heard of for so long is not counted
)

// instances is the processes that share the limit. They are counted with a key on the
// server, whose name is the prefix alone: no other key has that.
type instances struct {
	link   *link
	clock  *clock.Clock
	beside *beside
	failed func(*ReplyError) // told what the server replied in place of a count
	key    string
	name   string // of this process; empty: they need not be counted
	given  int64

	counted atomic.Pointer[census] // nil: not yet
	begun   atomic.Int64           // since when this one is counted without a break
	beaten  atomic.Int64           // when the last heartbeat was sent
}

type census struct {
	processes int64
	before    int64 // how many of them come before this one in the order of names
	heard     int64 // when the last heartbeat was sent with which all were counted; 0: none
}

func (i *instances) init(cfg *Config, l *link, b *beside) {
	i.link, i.clock, i.beside, i.key, i.given = l, &l.clock, b, cfg.Prefix, int64(cfg.Instances)
	if cfg.WhenAway == Local && cfg.Instances == 0 {
		var name [8]byte
		_, _ = rand.Read(name[:]) // it never fails
		i.name = hex.EncodeToString(name[:])
	}
}

// count is how many there are, as far as is known, and how many of them come before this one.
// Where that is not known, all do.
//
// A process that has long not asked when the server goes away was not counted by the others,
// nor has it counted those that came.
func (i *instances) count() census {
	if i.given > 0 {
		return unordered(i.given, 0)
	}
	at := i.clock.Now()
	if b := i.link.keepsAway(i.key); b != nil {
		at = b.since.Load()
	}
	c := i.counted.Load()
	switch {
	case c == nil:
		return unordered(AssumedInstances, 0)
	case at-c.heard <= int64(beatLasts):
		return *c
	default:
		return unordered(max(c.processes, AssumedInstances), 0)
	}
}

// unordered is so many, of which it is not known which comes first.
func unordered(processes, heard int64) census { return census{processes, processes, heard} }

// share is this process's part of a limit: a process each in turn, in the order of names,
// until it is spent. A share is no larger where more processes are known, or more of those
// that come before. So the shares of processes that were counted sum to at most the limit,
// whichever of them have gone meanwhile.
func (c census) share(limit int64) int64 {
	if c.before < limit%c.processes {
		return limit/c.processes + 1
	}
	return limit / c.processes
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
	i.beside.run(func() {
		r, err := i.send(beatLasts)
		if err == nil {
			i.learn(census{r[0], r[2], now}, r[1] == 1)
		} else if replied := replyOf(err); replied != nil {
			i.failed(replied)
		}
	})
}

// learn takes what the server has counted. Where this process is new, the server may have
// begun to count just now, and have heard of few. It has heard of all once this one has been
// counted as long as any is without asking.
func (i *instances) learn(c census, isNew bool) {
	if isNew {
		i.begun.Store(i.clock.Now())
	}
	if c.heard-i.begun.Load() < int64(beatLasts) {
		last := i.counted.Load()
		if last == nil {
			last = &census{}
		}
		if c.processes <= last.processes {
			return
		}
		c = unordered(c.processes, last.heard)
	}
	i.counted.Store(&c)
}

func (i *instances) send(lasts time.Duration) (reply, error) {
	var a args
	a.add(i.name)
	a.addInt(lasts.Microseconds())
	return i.link.do(context.Background(), &request{script: instancesScript, key: i.key, args: a})
}

// close ends the heartbeat. None is under way any more.
func (i *instances) close() {
	if i.counted.Load() != nil {
		_, _ = i.send(0) // else it ends by itself
	}
}
