package limit

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// engine counts for all keys. Keys, counts and limits are checked before it is called.
// The time and the limit are arguments, so that a limit may differ from call to call; it is
// at most the one that the engine was made for.
type engine interface {
	// decide admits n of key and charges it, or refuses. With a q that takes nothing, it
	// only says what it would do.
	decide(key string, q question) Decision
	// charge takes n, whatever the limit.
	charge(key string, q question)
	// refund gives back n of what d charged under that limit.
	refund(key string, d Decision, q question)
	// moreAfter returns Decision.MoreAfter of a key that was found crowded or not, and of
	// which so much remains.
	moreAfter(now, limit int64, key string, crowded bool, remaining int64) time.Duration
	forget(key string)
	sweep(now int64)
	stats() Stats
}

// question is whether n pass at now under a limit. n is 1 or more.
type question struct {
	now, limit, n int64
	take          bool          // charge n if it passes
	some          bool          // if n do not fit, those of them that do pass
	burst         int64         // how many may pass at once, where that is not the limit; 0: as the engine was told
	patience      time.Duration // how long n may have to wait for their turn, where there are turns
}

// fit returns how many pass where there is so much room: 0 if that is too little.
func (q *question) fit(room int64) int64 {
	switch {
	case q.n <= room:
		return q.n
	case q.some:
		return max(0, room)
	default:
		return 0
	}
}

// least is how many must fit for any to pass.
func (q *question) least() int64 {
	if q.some {
		return 1
	}
	return q.n
}

// algorithm counts what one key was charged, in a V. A node that is dead was taken out of
// the table, and no longer counts.
type algorithm[V any] interface {
	// begin charges n, which may be 0, to a node that nobody else knows yet.
	begin(node *keys.Node[V], now, n int64)
	// begun returns the decision that made a node, which began at that time.
	begun(at int64, q question) Decision
	// most returns how many ever pass at once, under the limit of the question.
	most(q question) int64
	// answer decides about a node. If it reports that the node is not alive, nothing was done.
	answer(node *keys.Node[V], q question) (d Decision, alive bool)
	// add charges n, whatever the limit, unless the node is not alive.
	add(node *keys.Node[V], q question) (alive bool)
	// takeOff gives back n to what the ticket says, if that is still counted.
	takeOff(node *keys.Node[V], ticket int64, q question)
	// untilMore returns how long from now the next one passes if all that remains is used
	// at once; 0 if nothing is held. The limit is 1 or more.
	untilMore(node *keys.Node[V], now, limit, remaining int64) time.Duration
	// lasts returns how long from q.now it takes until nothing that is held then still is.
	lasts(q question) time.Duration
	// inspect and kill are those of [keys.Rules].
	inspect(node *keys.Node[V], now int64) (warmth uint64, expired bool)
	kill(node *keys.Node[V], now int64, force bool) bool
	// memory returns Stats.Bytes and Stats.Coarse.
	memory() (bytes, coarse int64)
}

// store is the engine: a table of keys, and an algorithm for each of them.
type store[V any] struct {
	algorithm algorithm[V]
	keys      *keys.Table[V]
	shared    *keys.Node[V] // counts new keys that find the table full, with Share; else nil
	crowded   atomic.Int64
	bare      bool // nodes are made without a charge, which is the next step
}

func (s *store[V]) init(cfg Config, a algorithm[V]) {
	s.algorithm = a
	s.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[V]{Init: a.begin, Inspect: a.inspect, Kill: a.kill, Keep: cfg.keep})
	if cfg.WhenFull == Share {
		s.shared = keys.NewNode[V]("", 0)
		a.begin(s.shared, minTime, 0)
	}
}

func (s *store[V]) decide(key string, q question) Decision {
	hash := s.keys.Hash(key)
	node, crowded := s.keys.Find(hash, key), false
	most := s.algorithm.most(q)
	if q.some {
		q.n = max(1, min(q.n, most))
	}
	for {
		if node == nil {
			if q.take && q.n <= most {
				found, at, made := s.keys.FindOrMake(hash, key, q.now, q.n)
				if made && !s.bare {
					d := s.algorithm.begun(at, q)
					d.generation = generationOf(found.Generation())
					return d
				}
				node = found
			} else if s.keys.Room(hash, q.now) {
				return unheld(q, most)
			}
			if node == nil {
				if q.take {
					s.crowded.Add(1)
				}
				if s.shared == nil {
					return crowdedOut(q, most, s.algorithm.lasts(q))
				}
				node, crowded = s.shared, true
			}
		}
		if d, alive := s.algorithm.answer(node, q); alive {
			d.Crowded = crowded
			return d
		}
		node = nil // and ask the table again
	}
}

// charge charges a key that finds the table full to the shared node, or if there is none
// not at all.
func (s *store[V]) charge(key string, q question) {
	hash := s.keys.Hash(key)
	node := s.keys.Find(hash, key)
	for {
		if node == nil {
			found, _, made := s.keys.FindOrMake(hash, key, q.now, q.n)
			if found == nil {
				found = s.shared
			}
			if made && !s.bare || found == nil {
				return
			}
			node = found
		}
		if s.algorithm.add(node, q) {
			return
		}
		node = nil
	}
}

func (s *store[V]) refund(key string, d Decision, q question) {
	node := s.shared
	if node == nil || !d.Crowded {
		node = s.keys.Find(s.keys.Hash(key), key)
	}
	if node != nil && generationOf(node.Generation()) == d.generation {
		s.algorithm.takeOff(node, d.Ticket, q)
	}
}

func (s *store[V]) moreAfter(now, limit int64, key string, crowded bool, remaining int64) time.Duration {
	node := s.shared
	switch {
	case limit == 0:
		return Never
	case !crowded:
		node = s.keys.Find(s.keys.Hash(key), key)
	case node == nil:
		return s.algorithm.lasts(question{now: now, limit: limit})
	}
	if node == nil {
		return 0
	}
	return s.algorithm.untilMore(node, now, limit, remaining)
}

func (s *store[V]) forget(key string) { s.keys.Delete(s.keys.Hash(key), key) }

func (s *store[V]) sweep(now int64) { s.keys.Sweep(now) }

func (s *store[V]) stats() Stats {
	bytes, coarse := s.algorithm.memory()
	return Stats{
		Keys: s.keys.Len(), MaxKeys: s.keys.Max(), Expired: s.keys.Expired(), Evicted: s.keys.Evicted(),
		Crowded: s.crowded.Load(), Bytes: bytes, Coarse: coarse,
	}
}

// unheld is the answer about a key that holds nothing, when nothing is taken.
func unheld(q question, most int64) Decision {
	if q.n > most {
		return Decision{Limit: q.limit, Remaining: most, RetryAfter: Never}
	}
	return Decision{Allowed: true, Limit: q.limit, Remaining: most}
}

// crowdedOut refuses a new key for want of room in the table, where nothing that is held
// now lasts longer.
func crowdedOut(q question, most int64, lasts time.Duration) Decision {
	d := Decision{Limit: q.limit, Crowded: true, RetryAfter: Never}
	if q.n <= most {
		d.RetryAfter, d.Unavailable = lasts, true
	}
	return d
}
