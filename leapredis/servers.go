package leapredis

import (
	"maps"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/leapgate-go/leapgate/internal/clock"
)

// servers is what is known of the servers that a client calls. Limiters that share a client,
// and wait equally long, share it: what one of them has waited for in vain, the others need
// not wait for. (Where they do not wait equally long, what is too late for one is not for
// another.)
type servers struct {
	locator   Locator // nil: nothing says which server keeps a key
	clustered bool
	clock     clock.Clock
	timeout   time.Duration
	answered  atomic.Bool  // a script was, so that the locator may be asked
	hasNamed  atomic.Bool  // the locator has named a server
	openings  atomic.Int64 // how often one went away

	whole  part         // of all keys, where there is one server
	ranges [ranges]part // of a Cluster's slots, where no server is named
	spread outage       // of the ranges
	mu     sync.Mutex   // guards changes of named
	named  atomic.Pointer[map[string]*part]
}

const (
	ranges = 64 // of slots
	slots  = 16384

	// maxStuck is how many calls may hang in the client, each in a goroutine, after their
	// deadlines. Beyond it, calls are not sent. A range of slots has a part of that.
	maxStuck        = 256
	maxStuckOfRange = maxStuck / 4

	// moreFailures are those beyond failuresToOpen after which a range is taken for away. It may
	// belong to two servers, of which one answers: then so many in a row are rare.
	moreFailures = failuresToOpen

	// maxNamed is how many names of servers are kept: those of a Cluster may change.
	maxNamed = 256
	// unasked is after how long a named server that is away is forgotten, if no key is on it
	// any more: another has taken its place.
	unasked = time.Minute
)

// part is the keys that one server keeps, as far as is known.
type part struct {
	name    string // of the server; may be empty
	breaker breaker
	stuck   atomic.Int64 // calls that were not answered by their deadlines, and still hang
	most    int64        // of them
	outage  *outage
	own     outage
}

// outage is what is logged and counted once: that a server is away, or some ranges of slots.
type outage struct {
	parts atomic.Int64 // that are away
	since atomic.Int64
}

// begin reports whether a part that went away is the first.
func (o *outage) begin(now int64) bool {
	if o.parts.Add(1) != 1 {
		return false
	}
	o.since.Store(now)
	return true
}

// end reports whether a part that is back was the last, and how long some were away.
func (o *outage) end(now int64) (lasted time.Duration, over bool) {
	return time.Duration(now - o.since.Load()), o.parts.Add(-1) == 0
}

// shared are the servers of which more than one limiter may know.
var shared = struct {
	mu  sync.Mutex // guards all
	all map[sharing]weak.Pointer[servers]
}{all: map[sharing]weak.Pointer[servers]{}}

type sharing struct {
	client  Client
	timeout time.Duration
}

// serversOf returns what is known of a client's servers. It is forgotten when no limiter has
// it any more.
func serversOf(client Client, timeout time.Duration) *servers {
	if !reflect.ValueOf(client).Comparable() {
		return newServers(client, timeout)
	}
	key := sharing{client, timeout}
	fresh := newServers(client, timeout) // it asks the client, which may be a program's: so not under the lock
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.all[key].Value(); s != nil {
		return s
	}
	shared.all[key] = weak.Make(fresh)
	runtime.AddCleanup(fresh, forgetServers, key)
	return fresh
}

func forgetServers(key sharing) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.all[key].Value() == nil { // else there are others by now
		delete(shared.all, key)
	}
}

func newServers(client Client, timeout time.Duration) *servers {
	s := &servers{clustered: true, timeout: timeout, clock: clock.New(nil)}
	if l, ok := client.(Locator); ok {
		s.locator, s.clustered = l, l.Clustered()
	}
	s.whole.outage, s.whole.most = &s.whole.own, maxStuck
	for i := range s.ranges {
		s.ranges[i].outage, s.ranges[i].most = &s.spread, maxStuckOfRange
		s.ranges[i].breaker.more = moreFailures
	}
	s.named.Store(&map[string]*part{})
	return s
}

// part returns that of a key.
func (s *servers) part(key string) *part {
	if !s.clustered {
		return &s.whole
	}
	if s.locator != nil && s.answered.Load() {
		if name := s.locator.Node(key); name != "" {
			if p := (*s.named.Load())[name]; p != nil {
				return p
			}
			return s.name(name)
		}
	}
	return &s.ranges[slot(key)/(slots/ranges)]
}

// name makes the part of a server that was not named before.
func (s *servers) name(name string) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.named.Load()
	if p := old[name]; p != nil {
		return p
	}
	all := maps.Clone(old)
	now := s.clock.Now()
	maps.DeleteFunc(all, func(_ string, p *part) bool {
		return p.breaker.unasked(now) || len(old) >= maxNamed && p.breaker.state() == Closed
	})
	p := &part{name: name, most: maxStuck}
	p.outage = &p.own
	all[name] = p
	s.named.Store(&all)
	return p
}

// each calls do with every part.
func (s *servers) each(do func(p *part)) {
	do(&s.whole)
	for i := range s.ranges {
		do(&s.ranges[i])
	}
	for _, p := range *s.named.Load() {
		do(p)
	}
}

// state is that of the parts: Open if one is, else HalfOpen if one is. away is how many are not
// Closed.
func (s *servers) state() (state State, away int) {
	now := s.clock.Now()
	s.each(func(p *part) {
		its := p.breaker.state()
		if its == Closed || p.name != "" && p.breaker.unasked(now) {
			return
		}
		away++
		if state != Open {
			state = its
		}
	})
	return state, away
}

// forget takes ranges for Closed that are Open and that nobody has long asked, or all that are
// Open. If none is left that is away, it reports so, and how long some were.
func (s *servers) forget(now int64, all bool) (lasted time.Duration, over bool) {
	if s.spread.parts.Load() == 0 {
		return 0, false
	}
	for i := range s.ranges {
		if s.ranges[i].breaker.forget(now, all) {
			lasted, over = s.spread.end(now)
		}
	}
	return lasted, over
}

// slot returns the number of the slot of a Cluster in which a key is: CRC-16 (XMODEM) of it.
// No key of a limiter has a part in braces that would stand for it.
func slot(key string) int {
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		crc = crc<<4 ^ nibbles[crc>>12]
		crc = crc<<4 ^ nibbles[crc>>12]
	}
	return int(crc % slots)
}

// nibbles are the remainders of four bits each.
var nibbles = [16]uint16{
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
}
