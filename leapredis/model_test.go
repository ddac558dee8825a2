package leapredis

import (
	"context"
	"encoding/binary"
	"maps"
	"math/big"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// server is a model of a server: it does what the scripts do, naively, by its own clock.
type server struct {
	latency slowness                                   // of each call, half of it before anything is done
	fault   func(name string, before bool) error       // asked before and after
	now     func() int64                               // µs
	observe func(name, key string, n int64, r []int64) // told of what was done, under the lock

	mu       sync.Mutex
	known    map[string]bool
	counters map[string]*counted
	logs     map[string]*logged
	bursts   map[string]*owing
	places   map[string]map[string]int64 // of each key, when their leases end
	beats    map[string]int64
	calls    map[string]int
}

// slowness is a time that can be set meanwhile.
type slowness struct{ atomic.Int64 }

func (s *slowness) set(d time.Duration) { s.Store(int64(d)) }

type counted struct{ number, generation, previous, current, length int64 }

type logged struct {
	at, n []int64
	last  int64
}

func newServer() *server {
	return &server{
		now:      func() int64 { return time.Now().UnixMicro() },
		known:    map[string]bool{},
		counters: map[string]*counted{},
		logs:     map[string]*logged{},
		bursts:   map[string]*owing{},
		places:   map[string]map[string]int64{},
		beats:    map[string]int64{},
		calls:    map[string]int{},
	}
}

var scriptNames = map[*script]string{
	counterScript: "counter", counterRefundScript: "counter refund", counterResetScript: "counter reset",
	logScript: "log", logRefundScript: "log refund", logResetScript: "log reset", burstScript: "burst",
	inFlightScript: "in flight", releaseScript: "release", renewScript: "renew", instancesScript: "instances", typeOfScript: "type of",
}

func (s *server) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	for script, name := range scriptNames {
		if script.sha == sha {
			return s.run(ctx, name, false, key, args)
		}
	}
	return nil, &ReplyError{"NOSCRIPT No matching script."}
}

func (s *server) Eval(ctx context.Context, text, key string, args ...string) ([]int64, error) {
	for script, name := range scriptNames {
		if script.text == text {
			return s.run(ctx, name, true, key, args)
		}
	}
	return nil, &ReplyError{"ERR Error compiling script"}
}

func (s *server) run(_ context.Context, name string, text bool, key string, given []string) ([]int64, error) {
	latency := time.Duration(s.latency.Load())
	time.Sleep(latency / 2)
	if s.fault != nil {
		if err := s.fault(name, true); err != nil {
			return nil, err
		}
	}
	r, err := s.execute(name, text, key, given)
	time.Sleep(latency - latency/2)
	if err == nil && s.fault != nil {
		err = s.fault(name, false)
	}
	return r, err
}

func (s *server) execute(name string, text bool, key string, given []string) (r []int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text {
		s.known[name] = true
	} else if !s.known[name] {
		s.calls["NOSCRIPT"]++
		return nil, &ReplyError{"NOSCRIPT No matching script. Please use EVAL."}
	}
	a := make([]int64, 4)
	switch name {
	case "counter", "log", "burst":
		a = unpack(given[0])
	case "in flight":
		copy(a, unpack(given[0]))
	default:
		for i, arg := range given {
			a[i], _ = strconv.ParseInt(arg, 10, 64)
		}
	}
	n := a[2]
	switch {
	case name == "burst" && a[6] == refundIt:
		s.calls["burst refund"]++
	case name == "burst" && a[6] == resetIt:
		s.calls["burst reset"]++
	default:
		s.calls[name]++
	}
	switch name {
	case "burst":
		n = a[5]
		r = s.burst(key, a)
	case "in flight":
		all, now := s.places[key], s.now()
		r = []int64{0, 0}
		for _, ends := range all {
			if ends > now {
				r[1]++
			}
		}
		if given[1] != "" && r[1] < a[0] {
			if all == nil {
				all = map[string]int64{}
				s.places[key] = all
			}
			maps.DeleteFunc(all, func(_ string, ends int64) bool { return ends <= now })
			all[given[1]] = now + a[1]
			r = []int64{1, r[1] + 1}
		}
	case "release":
		r = []int64{0}
		if _, ok := s.places[key][given[0]]; ok {
			delete(s.places[key], given[0])
			r[0] = 1
		}
	case "renew":
		r = []int64{0}
		if ends := s.places[key][given[0]]; ends > s.now() {
			s.places[key][given[0]] = max(ends, s.now()+a[1])
			r[0] = 1
		}
	case "counter":
		r = s.count(key, a[0], a[1], a[2], a[3])
	case "counter refund":
		r = []int64{0}
		if c := s.counters[key]; c != nil && c.number == a[0] && c.generation == a[1] && c.current >= n {
			c.current -= n
			r[0] = n
		}
	case "counter reset":
		r = []int64{0}
		if c := s.counters[key]; c != nil {
			c.generation++
			c.previous, c.current = 0, 0
			r[0] = 1
		}
	case "log":
		r = s.admit(key, a[0], a[1], a[2], a[3])
	case "log refund":
		n = a[1]
		r = []int64{0}
		if l := s.logs[key]; l != nil {
			for i, at := range l.at {
				if at == a[0] && l.n[i] >= n {
					l.n[i] -= n
					r[0] = n
				}
			}
			l.drop(func(i int) bool { return l.n[i] == 0 })
			if len(l.at) == 0 {
				delete(s.logs, key)
			} else {
				l.last = l.at[len(l.at)-1]
			}
		}
	case "log reset":
		delete(s.logs, key)
		r = []int64{1}
	case "type of":
		r = []int64{1}
		switch {
		case s.bursts[key] != nil:
			r[0] = 2
		case s.counters[key] != nil:
			r[0] = 2
		case s.logs[key] != nil:
			r[0] = 5
		}
	case "instances":
		now := s.now()
		r = []int64{0, 0, 0}
		if s.beats[given[0]] <= now && a[1] > 0 {
			r[1] = 1
		}
		if s.beats[given[0]] = now + a[1]; a[1] == 0 {
			delete(s.beats, given[0])
		}
		for name, until := range s.beats {
			if until > now {
				r[0]++
				if name < given[0] && a[1] > 0 {
					r[2]++
				}
			}
		}
	}
	if s.observe != nil && err == nil {
		s.observe(name, key, n, r)
	}
	return r, err
}

// unpack is struct.unpack of the scripts: '>i7i7…'.
func unpack(text string) (numbers []int64) {
	for ; text != ""; text = text[packed:] {
		bytes := [8]byte{}
		copy(bytes[:], text[:packed])
		numbers = append(numbers, int64(binary.BigEndian.Uint64(bytes[:]))>>8)
	}
	return numbers
}

func (s *server) count(key string, limit, length, n, most int64) []int64 {
	at := s.now()
	c := s.counters[key]
	if c == nil {
		c = &counted{number: at / length}
	}
	now := *c
	now.length = length
	var ahead int64
	switch number := at / length; {
	case number == c.number:
	case number == c.number+1:
		now.number, now.previous, now.current = number, c.current, 0
	case number > c.number:
		now.number, now.previous, now.current = number, 0, 0
	default:
		ahead = c.number*length - at
		at += ahead
	}
	// limit − current − n ≥ previous × rest / length
	share := new(big.Int).Mul(big.NewInt(now.previous), big.NewInt(length-at%length))
	spareFor := func(n int64) *big.Int {
		room := new(big.Int).Mul(big.NewInt(limit-now.current-n), big.NewInt(length))
		return room.Sub(room, share)
	}
	if most == takeSome {
		fit := spareFor(0)
		n = max(1, min(n, fit.Div(fit, big.NewInt(length)).Int64()))
	}
	spare := spareFor(n)
	taken := int64(0)
	switch {
	case most == takeNothing:
		if spare.Sign() >= 0 {
			taken = n
		}
	case most == takeAnyway:
		taken = min(n, maxHeld-now.current)
	case spare.Sign() >= 0:
		spare.Div(spare, big.NewInt(8*length))
		taken = n + max(0, min(most-n, spare.Int64()))
	}
	if most != takeNothing && taken > 0 {
		now.current += taken
		s.counters[key] = &now
	}
	return []int64{taken, now.previous, now.current, at, now.generation, ahead}
}

func (s *server) admit(key string, limit, length, n, most int64) []int64 {
	l := s.logs[key]
	if l == nil {
		l = new(logged)
	}
	now := s.now()
	at := max(now, l.last)
	var held, oldest, newest int64
	for i := range l.at {
		if l.n[i] > 0 && l.at[i] > at-length {
			if held == 0 {
				oldest = l.at[i]
			}
			held += l.n[i]
			newest = l.at[i]
		}
	}
	if most == takeSome {
		n = max(1, min(n, limit-held))
	}
	var taken, wait, reset int64
	switch {
	case n > limit && most != takeAnyway:
		wait = -1
	case held+n <= limit || most == takeAnyway:
		taken = n
	default:
		left := held
		for i := range l.at {
			if l.at[i] > at-length {
				if left -= l.n[i]; left+n <= limit {
					wait = l.at[i] + length - now
					break
				}
			}
		}
	}
	if most != takeNothing && taken > 0 {
		l.drop(func(i int) bool { return l.at[i] <= now-length })
		if len(l.at) > 0 {
			at = max(now, l.last+1)
		}
		l.last = at
		l.at, l.n = append(l.at, at), append(l.n, taken)
		s.logs[key] = l
		if held == 0 {
			oldest = at
		}
		return []int64{taken, held + taken, 0, at - now + length, at, oldest - now + length}
	}
	if held > 0 {
		reset = newest + length - now
	}
	return []int64{taken, held, wait, reset, 0}
}

// drop takes admissions out.
func (l *logged) drop(gone func(i int) bool) {
	kept := 0
	for i := range l.at {
		if !gone(i) {
			l.at[kept], l.n[kept] = l.at[i], l.n[i]
			kept++
		}
	}
	l.at, l.n = l.at[:kept], l.n[:kept]
}
