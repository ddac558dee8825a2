package main

import (
	"hash/fnv"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// traffic is what a shop wants to know about its last minute: a ring of sixty
// buckets, one for each second. All methods may be called by any number of
// goroutines at once.
type traffic struct {
	ring *leaparray.LeapArray[bucket]
}

func newTraffic() *traffic {
	// The zero bucket is a good one. The bucket before could be read here, which this metric has
	// no need of.
	ring, err := leaparray.New(60, time.Minute, func(*bucket, int64, *leaparray.WindowWrap[bucket]) {})
	if err != nil {
		panic(err) // only for numbers that do not fit together
	}
	return &traffic{ring}
}

// A bucket is one second. Every field is changed by many goroutines at once, so
// all are atomic. None is ever set back: the next second gets a new bucket, and
// a goroutine that still holds this one holds it whole.
type bucket struct {
	bytes     atomic.Int64
	largest   atomic.Int64
	customers seen
}

// record counts an answer of so many bytes to a customer, at now in nanoseconds.
func (t *traffic) record(now int64, customer string, bytes int64) {
	b := t.ring.Current(now).Value()
	b.bytes.Add(bytes)
	b.customers.add(customer)
	for old := b.largest.Load(); bytes > old; old = b.largest.Load() {
		if b.largest.CompareAndSwap(old, bytes) {
			break
		}
	}
}

type minute struct {
	customers    float64 // different ones
	sumOfSeconds float64 // the same, added up second by second: too many
	bytes        int64
	largest      int64 // answer, in bytes
}

// lastMinute reads the window that ends with the second of now. Live returns its
// buckets, oldest first; seconds in which nobody came have none. Answers that are
// recorded meanwhile may be missed.
func (t *traffic) lastMinute(now int64) minute {
	var m minute
	var united seen
	for w := range t.ring.Live(now) {
		b := w.Value()
		m.bytes += b.bytes.Load()
		m.largest = max(m.largest, b.largest.Load())
		m.sumOfSeconds += b.customers.count()
		united.unite(&b.customers)
	}
	m.customers = united.count()
	return m
}

// seen estimates how many different names were added to it. Each name sets one
// bit, always the same; the share of bits that are still 0 shows how many names
// there were. 4,096 bits are good for about 10,000 names, and at 1,000 are off by
// about 1 %, at a price of 512 bytes whatever the names. It is linear counting:
// Whang, Vander-Zanden, Taylor: A linear-time probabilistic counting algorithm for
// database applications, ACM TODS 15(2), 1990.
type seen struct {
	words [64]atomic.Uint64
}

const seenBits = 64 * 64

func (s *seen) add(name string) {
	h := fnv.New64a()
	h.Write([]byte(name))
	hash := h.Sum64()
	bit := (hash ^ hash>>32) % seenBits
	s.words[bit/64].Or(1 << (bit % 64))
}

// unite adds the names of other to s. That is what makes seen fit for a window: a
// name that two buckets have counts once.
func (s *seen) unite(other *seen) {
	for i := range s.words {
		s.words[i].Or(other.words[i].Load())
	}
}

func (s *seen) count() float64 {
	zeros := seenBits
	for i := range s.words {
		zeros -= bits.OnesCount64(s.words[i].Load())
	}
	return seenBits * math.Log(seenBits/float64(max(1, zeros))) // full: at least so many
}
