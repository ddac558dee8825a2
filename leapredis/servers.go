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

// servers holds the circuit breakers of the servers that a client calls. Limiters with the same
// client and timeout share them, so that a server that hangs is found once and not by each
// limiter. Limiters with different timeouts do not: a reply may be too late for only one of them.
type servers struct {
	locator  Locator // nil if the client cannot name the server of a key
	clock    clock.Clock
	answered atomic.Bool  // a script was answered, so the locator may be called
	openings atomic.Int64 // how often a breaker opened

	whole part       // for keys whose server has no name
	mu    sync.Mutex // guards changes of named
	named atomic.Pointer[map[string]*part]
}

const (
	// maxStuck is the number of calls of a part that may hang in the client after their
	// deadlines, each in a goroutine. Beyond it, calls fail without being sent.
	maxStuck = 256

	// maxNamed limits the names that are kept, because the servers of a Cluster may change.
	maxNamed = 256

	// unasked is the time after which an open breaker without calls is ignored: the server's
	// keys have moved to another one.
	unasked = time.Minute
)

// part is the set of keys that share a breaker: those of one named server, or all keys.
type part struct {
	name    string // the server's; empty if unknown
	breaker breaker
	stuck   atomic.Int64 // calls that hang after their deadlines
}

// shared holds the servers by client and timeout.
var shared = struct {
	mu  sync.Mutex // guards all
	all map[sharing]weak.Pointer[servers]
}{all: map[sharing]weak.Pointer[servers]{}}

type sharing struct {
	client  Client
	timeout time.Duration
}

// serversOf returns the servers of a client. They are dropped when no limiter uses them.
func serversOf(client Client, timeout time.Duration) *servers {
	fresh := newServers(client)
	if !reflect.ValueOf(client).Comparable() {
		return fresh
	}
	key := sharing{client, timeout}
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
	if shared.all[key].Value() == nil { // otherwise new servers have the key
		delete(shared.all, key)
	}
}

func newServers(client Client) *servers {
	s := &servers{clock: clock.New(nil)}
	s.locator, _ = client.(Locator)
	s.named.Store(&map[string]*part{})
	return s
}

// part returns the part of a key.
func (s *servers) part(key string) *part {
	if s.locator == nil || !s.answered.Load() {
		return &s.whole
	}
	name := s.locator.Node(key)
	if name == "" {
		return &s.whole
	}
	if p := (*s.named.Load())[name]; p != nil {
		return p
	}
	return s.name(name)
}

// name adds the part of a server with a new name.
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
	p := &part{name: name}
	all[name] = p
	s.named.Store(&all)
	return p
}

// each calls f with every part.
func (s *servers) each(f func(p *part)) {
	f(&s.whole)
	for _, p := range *s.named.Load() {
		f(p)
	}
}

// state returns Open if any breaker is open, otherwise HalfOpen if any is half-open. away is the
// number of breakers that are not closed.
func (s *servers) state() (state State, away int) {
	now, named := s.clock.Now(), len(*s.named.Load()) > 0
	s.each(func(p *part) {
		its := p.breaker.state()
		if its == Closed || named && p.breaker.unasked(now) {
			return
		}
		away++
		if state != Open {
			state = its
		}
	})
	return state, away
}
