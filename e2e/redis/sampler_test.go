//go:build e2e

package redis

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

// sampler collects what servers hold of some limiters, again and again before it
// expires, so that in the end it has all that they ever charged.
type sampler struct {
	subjects []subject

	mu      sync.Mutex // guards what is below
	servers []*redistest.Server
	conns   map[string]*redistest.Conn
	seen    []map[string]charge // of each subject, by ID: as it was seen last
	last    time.Time           // when it was collected last
	gap     time.Duration       // the longest time between two collections, with the second

	stop, stopped chan struct{}
}

// sample begins to collect, so often.
func sample(every time.Duration, servers []*redistest.Server, subjects []subject) *sampler {
	s := &sampler{
		subjects: subjects, servers: servers, conns: map[string]*redistest.Conn{},
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.forget(nil)
	go func() {
		defer close(s.stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			s.collect()
			select {
			case <-tick.C:
			case <-s.stop:
				s.collect()
				return
			}
		}
	}()
	return s
}

// forget forgets what was collected, and the server gone.
func (s *sampler) forget(gone *redistest.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = slices.DeleteFunc(slices.Clone(s.servers), func(server *redistest.Server) bool { return server == gone })
	s.seen = nil
	for range s.subjects {
		s.seen = append(s.seen, map[string]charge{})
	}
}

// collect reads all servers; one that is not there has nothing. It has connections of its
// own, for those of the servers are the test's.
func (s *sampler) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	defer func() {
		if !s.last.IsZero() {
			s.gap = max(s.gap, time.Since(s.last))
		}
		s.last = began
	}()
	for _, server := range s.servers {
		do := func(args ...string) (any, error) { return s.do(server.Addr(), args...) }
		role, err := do("ROLE")
		if err != nil || role.([]any)[0] != "master" {
			continue
		}
		for i, subject := range s.subjects {
			key := subject.cfg.Prefix + "{}" + hot
			if _, err := do("EXISTS", key); err != nil {
				continue // another node of the cluster keeps it
			}
			all, err := charges(do, key, subject.cfg.Window)
			if err != nil {
				continue // the server goes away
			}
			for _, c := range all {
				s.seen[i][c.id] = c
			}
		}
	}
}

func (s *sampler) do(addr string, args ...string) (any, error) {
	conn := s.conns[addr]
	if conn == nil {
		var err error
		if conn, err = redistest.Dial(addr); err != nil {
			return nil, err
		}
		s.conns[addr] = conn
	}
	reply, err := conn.Do(args...)
	if err != nil {
		conn.Close()
		delete(s.conns, addr)
	}
	return reply, err
}

// end stops, and returns what was collected of each subject, oldest first. It is not all if
// this machine kept the sampler from its work for a window.
func (s *sampler) end() (all [][]charge, gap time.Duration) {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		conn.Close()
	}
	for _, seen := range s.seen {
		all = append(all, slices.SortedFunc(maps.Values(seen), func(a, b charge) int { return int(a.at - b.at) }))
	}
	return all, s.gap
}

// total is the sum of what was charged.
func total(all []charge) (sum int64) {
	for _, c := range all {
		sum += c.n
	}
	return sum
}

// mostInAWindow is the largest sum of charges within a true window, wherever it begins.
// A window is (now − window, now].
func mostInAWindow(all []charge, window time.Duration) (most int64) {
	first, sum := 0, int64(0)
	for _, c := range all {
		sum += c.n
		for ; all[first].at <= c.at-window.Microseconds(); first++ {
			sum -= all[first].n
		}
		most = max(most, sum)
	}
	return most
}

func TestMostInAWindow(t *testing.T) {
	t.Parallel()
	all := []charge{{at: 10, n: 2}, {at: 12, n: 1}, {at: 20, n: 4}, {at: 22, n: 1}, {at: 29, n: 1}}
	require.EqualValues(t, 6, mostInAWindow(all, 10*time.Microsecond), "20 to 29: what is 10 old is out")
	require.EqualValues(t, 7, mostInAWindow(all, 11*time.Microsecond), "10 to 20")
	require.EqualValues(t, 9, mostInAWindow(all, time.Millisecond))
	require.Zero(t, mostInAWindow(nil, time.Second))
}
