package system

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/stripes"
)

// ended is how many calls have succeeded and how long they took together, in one word, since a
// second one would cost each call a twentieth of its time:
//
//	63     40 39          0
//	 calls     response times, in units of 1.024 µs
//
// It only grows. What came since a mark, which is an earlier value, is the difference, so only that
// must fit: 16 million calls, and 13 days of response times.
type ended struct{ word stripes.Counter }

const (
	timeBits = 40
	timeMask = 1<<timeBits - 1
	unitBits = 10
	longest  = 1000 * time.Second // of what counts of one entry
)

// add counts n calls that took rt each.
func (e *ended) add(n int64, rt time.Duration) {
	units := (int64(min(rt, longest)) + 1<<(unitBits-1)) >> unitBits
	e.word.Add(n<<timeBits | min(n*units, int64(longest)>>unitBits))
}

// since returns how many calls there were from a mark to a word, and how long they took together,
// in seconds.
func since(word, mark int64) (n int64, seconds float64) {
	d := uint64(word - mark)
	return int64(d >> timeBits), float64(d&timeMask<<unitBits) / float64(time.Second)
}
