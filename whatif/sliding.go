package whatif

// sliding counts exactly what came within an interval, by key: at time t what came after
// t − interval and up to t. The times do not go back.
type sliding struct {
	interval int64
	step     int64 // what comes within so much may be held together; 0 is exact
	keys     []spell
	nodes    []node
	free     uint32 // the first of the nodes that are not in use; 0 is none, and no node
}

// spell is what a key has within the interval.
type spell struct {
	held        int64
	first, last uint32 // of its nodes, oldest first
}

// node is what came at one time.
type node struct {
	at   int64
	n    uint32
	next uint32
}

// exactUpTo is the longest interval that is counted exactly however much comes in it; a step
// of a longer one is so much of it.
const (
	exactUpTo = int64(3600e9)
	steps     = 100_000
)

// newSliding makes one whose memory is bounded if all that comes is added.
func newSliding(interval int64) *sliding {
	s := &sliding{interval: interval, nodes: make([]node, 1)}
	if interval > exactUpTo {
		s.step = interval / steps
	}
	return s
}

// newExact makes one that is always exact.
func newExact(interval int64) *sliding {
	return &sliding{interval: interval, nodes: make([]node, 1)}
}

// at returns what a key holds.
func (s *sliding) at(now int64, key uint32) int64 {
	if int(key) >= len(s.keys) {
		s.keys = grown(s.keys, key)
	}
	k := &s.keys[key]
	for k.held > 0 {
		first := &s.nodes[k.first]
		if first.at > now-s.interval {
			break
		}
		k.held -= int64(first.n)
		gone := k.first
		k.first = first.next
		first.next, s.free = s.free, gone
	}
	return k.held
}

// add adds to what a key holds, after at was asked.
func (s *sliding) add(now int64, key uint32, n int64) {
	k := &s.keys[key]
	if k.held > 0 {
		if last := &s.nodes[k.last]; s.together(last.at, now) && int64(last.n)+n < 1<<32 {
			last.n, last.at = last.n+uint32(n), now
			k.held += n
			return
		}
	}
	fresh := s.free
	if fresh == 0 {
		fresh = uint32(len(s.nodes))
		s.nodes = append(s.nodes, node{})
	} else {
		s.free = s.nodes[fresh].next
	}
	s.nodes[fresh] = node{at: now, n: uint32(n)}
	if k.held == 0 {
		k.first = fresh
	} else {
		s.nodes[k.last].next = fresh
	}
	k.last = fresh
	k.held += n
}

func (s *sliding) together(a, b int64) bool { return a == b || s.step > 0 && a/s.step == b/s.step }
