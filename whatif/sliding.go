package whatif

// sliding counts exactly what came within an interval, by key: at time t what came after
// t − interval and up to t. The times do not go back.
type sliding struct {
	interval int64
	step     int64 // what comes within so much may be held together; 0 is exact
	keys     column[spell]
	nodes    column[node]
	used     uint32 // so many nodes were ever in use
	free     uint32 // the first of those that are not; 0 is none, and no node
}

// spell is what a key has within the interval: what came last, and before that if anything. Most
// keys come once.
type spell struct {
	at    int64
	n     uint32
	older uint32 // a node that is a list; 0 if there is nothing older
}

// node is what came at one time; or a list of nodes, then at is how much they have together, n
// the number of the oldest and next that of the newest.
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
	s := newExact(interval)
	if interval > exactUpTo {
		s.step = interval / steps
	}
	return s
}

// newExact makes one that is always exact.
func newExact(interval int64) *sliding { return &sliding{interval: interval} }

// at returns what a key holds.
func (s *sliding) at(now int64, key uint32) int64 {
	k := s.keys.at(key)
	if k.at <= now-s.interval {
		k.n = 0 // the older are gone as well
	}
	if k.older == 0 {
		return int64(k.n)
	}
	list := s.nodes.at(k.older)
	for list.at > 0 {
		oldest := s.nodes.at(list.n)
		if oldest.at > now-s.interval {
			return list.at + int64(k.n)
		}
		list.at -= int64(oldest.n)
		gone := list.n
		list.n = oldest.next
		s.drop(gone)
	}
	s.drop(k.older)
	k.older = 0
	return int64(k.n)
}

// add adds to what a key holds, after at was asked.
func (s *sliding) add(now int64, key uint32, n int64) {
	k := s.keys.at(key)
	switch {
	case k.n == 0:
	case s.together(k.at, now) && int64(k.n)+n < 1<<32:
		k.n, k.at = k.n+uint32(n), now
		return
	default:
		s.push(k)
	}
	k.at, k.n = now, uint32(n)
}

// push makes what came last one of the older.
func (s *sliding) push(k *spell) {
	fresh := s.take()
	*s.nodes.at(fresh) = node{at: k.at, n: k.n}
	if k.older == 0 {
		k.older = s.take()
		*s.nodes.at(k.older) = node{n: fresh}
	} else {
		s.nodes.at(s.nodes.at(k.older).next).next = fresh
	}
	list := s.nodes.at(k.older)
	list.at += int64(k.n)
	list.next = fresh
}

func (s *sliding) take() (n uint32) {
	if n = s.free; n == 0 {
		s.used++
		return s.used
	}
	s.free = s.nodes.at(n).next
	return n
}

func (s *sliding) drop(n uint32) {
	s.nodes.at(n).next = s.free
	s.free = n
}

func (s *sliding) together(a, b int64) bool { return a == b || s.step > 0 && a/s.step == b/s.step }
