package limit

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// gcra is the generic cell rate algorithm. A key keeps the time at which it will have paid
// for all that it was admitted, where one call costs window ÷ limit. n more pass if that
// time would then be no further from now than burst calls cost.
//
// The cost of a call is no whole number of nanoseconds. Rounded down, it would admit too
// many, and rounded up too few. So there is a fraction, in units of 2⁻³² ns and rounded up;
// as what is paid is a multiple of 1/limit ns, it says which one, whatever the limit, up to
// 2³². From there on it is rounded up for good, by that much with each call.
type gcra struct {
	window uint64
	burst  atomic.Int64 // 0: as many as the limit
	store  store[debt]
}

// debt is what a key has to pay: the calls that take until paid at a limit per window. Another
// limit keeps the number of calls and changes the time, with the first call that it decides. The
// fraction of the time is in the node's Aux, so that a node with a key of 16 bytes takes 48.
type debt struct {
	mu    sync.Mutex // guards what is below, and Aux
	paid  int64      // when all is paid, without the fraction; or killed
	limit uint64     // that paid is computed with, and turns; 0: no call was charged yet
}

// turns is set in debt.limit if calls were given turns in the future. A higher limit leaves their
// times as they are, so that no later call passes them.
const turns = 1 << 63

// priced returns the limit that a key's time is computed with: other, if there is none yet.
func (d *debt) priced(other uint64) uint64 {
	if limit := d.limit &^ turns; limit > 0 {
		return limit
	}
	return other
}

type debtor = keys.Node[debt]

const (
	killed   = math.MaxInt64      // the time of a key that was taken out
	lastTime = killed - 2*maxTime // later times are taken for it
)

func newGCRA(cfg Config) *gcra {
	e := &gcra{window: uint64(cfg.Window)}
	e.burst.Store(cfg.Burst)
	e.store.bare = true
	e.store.init(cfg, e)
	return e
}

func (e *gcra) begin(node *debtor, now, _ int64) { node.Value.paid = min(now, lastTime) }

// begun is for nodes that are made with a charge, and so for none.
func (e *gcra) begun(int64, question) (d Decision) { return d }

// most is how many pass at once.
func (e *gcra) most(q question) int64 {
	burst := q.burst
	if burst == 0 {
		burst = e.burst.Load()
	}
	if burst == 0 || q.limit == 0 {
		return q.limit
	}
	return burst
}

// leftOf is how long from now all is paid, without the fraction.
func leftOf(node *debtor, now int64) int64 { return between(min(now, lastTime), node.Value.paid) }

// owed is what a key owes at now, in nanoseconds ÷ limit: exact, and so long that it may need
// 128 bits.
func owed(node *debtor, now int64, limit uint64) wide {
	left := leftOf(node, now)
	fraction := uint64(node.Aux.Load())
	if left < 0 {
		return wide{}
	}
	owes := product(uint64(left), limit)
	if fraction > 0 {
		if limit < 1<<32 {
			fraction-- // the next multiple of 1/limit was rounded up to this
		}
		hi, lo := bits.Mul64(fraction, limit)
		owes = owes.plus(wide{0, hi<<32 | lo>>32}.plus(wide{0, 1}))
	}
	return owes
}

// owe makes a key owe that much at now, under a limit, of which calls may have turns.
func owe(node *debtor, now int64, owes wide, limit, mark uint64) {
	node.Value.limit = limit | mark
	left, rest := owes.divide(limit)
	left = min(left, maxTime)
	fraction := uint64(0)
	if rest > 0 {
		var over uint64
		if fraction, over = bits.Div64(rest>>32, rest<<32, limit); over > 0 {
			fraction++
		}
	}
	left += fraction >> 32
	node.Value.paid = min(now, lastTime) + int64(left)
	if uint32(fraction) != node.Aux.Load() {
		node.Aux.Store(uint32(fraction))
	}
}

// answerKnown decides about what is asked most: n of a key that is known, with numbers that
// fit into 64 bits. It writes what is not zero in d. If it is not such a case, it returns
// false, and has done nothing.
func (e *gcra) answerKnown(d *Decision, now, limit, ownBurst int64, key string, n int64) bool {
	node := e.store.keys.Find(e.store.keys.Hash(key), key)
	most := e.most(question{limit: limit, burst: ownBurst})
	over, burst := bits.Mul64(uint64(most), e.window)
	if node == nil || n > most || over != 0 || burst >= 1<<63 || uint64(limit-1) >= 1<<32-1 {
		return false
	}
	cost := uint64(n) * e.window // no more than burst
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	paid := node.Value.paid
	left := paid - now
	if paid == killed || now > lastTime || (left < 0) != (paid < now) || node.Value.limit&^turns != uint64(limit) {
		return false
	}
	owes := uint64(0)
	if left >= 0 {
		if over, owes = bits.Mul64(uint64(left), uint64(limit)); over != 0 || owes >= 1<<63 {
			return false
		}
		if fraction := uint64(node.Aux.Load()); fraction > 0 {
			owes += (fraction-1)*uint64(limit)>>32 + 1
		}
	}
	d.Limit = limit
	if owes > burst-cost {
		if owes <= burst {
			d.Remaining = int64((burst - owes) / e.window)
		}
		d.RetryAfter = time.Duration(divideUp(owes-(burst-cost), uint64(limit)))
		d.ResetAfter = time.Duration(divideUp(owes, uint64(limit)))
		return true
	}
	owes += cost
	whole, rest := owes/uint64(limit), owes%uint64(limit)
	d.Allowed, d.Remaining, d.ResetAfter = true, int64((burst-owes)/e.window), time.Duration(whole)
	d.Charged, d.Ticket, d.generation = n, now, generationOf(node.Generation())
	fraction := uint64(0)
	if rest > 0 {
		d.ResetAfter++
		fraction = divideUp(rest<<32, uint64(limit))
	}
	node.Value.paid, node.Value.limit = now+int64(whole), uint64(limit)
	if uint32(fraction) != node.Aux.Load() {
		node.Aux.Store(uint32(fraction))
	}
	return true
}

func divideUp(a, by uint64) uint64 { return (a + by - 1) / by }

func (e *gcra) answer(node *debtor, q question) (d Decision, alive bool) {
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	if node.Value.paid == killed {
		return d, false
	}
	d.Limit = q.limit
	limit, most := uint64(q.limit), e.most(q)
	burst := product(uint64(most), e.window)
	owes, waiting := e.owes(node, q, burst)
	pays := limit // until the next call; a question that takes nothing leaves the limit as it is
	switch {
	case !q.take && waiting == 0:
		pays = node.Value.priced(limit)
	case q.take && limit > 0 && limit != node.Value.limit&^turns:
		owe(node, q.now, owes, limit, waiting)
	}
	room := int64(0)
	if left, over := burst.minus(owes); !over {
		fit, _ := left.divide(e.window)
		room = int64(fit)
	}
	n := q.fit(room)
	waiting = 0
	switch {
	case q.least() > most:
		d.RetryAfter = Never
	case n == 0:
		more, _ := owes.plus(product(uint64(q.least()), e.window)).minus(burst)
		d.RetryAfter = duration(more, pays)
		if d.RetryAfter > q.patience {
			break
		}
		n, waiting = q.least(), turns
		fallthrough
	default:
		d.Allowed = true
		if q.take {
			owes = owes.plus(product(uint64(n), e.window))
			owe(node, q.now, owes, limit, waiting)
			room = max(0, room-n)
			d.Charged, d.Ticket, d.generation = n, q.now+int64(d.RetryAfter), generationOf(node.Generation())
		}
	}
	d.Remaining = room
	if limit > 0 {
		d.ResetAfter = duration(owes, pays)
	}
	return d, true
}

// owes returns what a key owes at q.now under the limit of q, and turns if calls wait for theirs.
func (e *gcra) owes(node *debtor, q question, burst wide) (owes wide, waiting uint64) {
	limit := max(1, uint64(q.limit))
	priced := node.Value.priced(limit)
	owes = owed(node, q.now, priced)
	if waiting = waitingOf(node, owes, burst); waiting != 0 && limit > priced {
		owes = owed(node, q.now, limit)
	}
	return owes, waiting
}

// waitingOf returns turns if calls wait for theirs: they have some, and the key owes more than burst.
func waitingOf(node *debtor, owes, burst wide) uint64 {
	if waits, none := owes.minus(burst); none || waits == (wide{}) {
		return 0
	}
	return node.Value.limit & turns
}

// duration is how long it takes to pay that much.
func duration(owes wide, limit uint64) time.Duration {
	whole, rest := owes.divide(limit)
	if rest > 0 {
		whole++
	}
	return time.Duration(min(whole, maxTime))
}

func (e *gcra) add(node *debtor, q question) (alive bool) {
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	if node.Value.paid == killed {
		return false
	}
	if limit := node.Value.priced(uint64(q.limit)); limit > 0 {
		owes := owed(node, q.now, limit)
		waiting := waitingOf(node, owes, product(uint64(e.most(q)), e.window)) // before n, which have no turns
		owe(node, q.now, owes.plus(product(uint64(q.n), e.window)), limit, waiting)
	}
	return true
}

// takeOff gives back what n have cost, less the time since they began. Had they never been,
// the key would owe at least so much less, whatever came meanwhile: only in that time can it
// have owed nothing. While calls wait for turns, which they have been told, only the last turn
// can be given back.
func (e *gcra) takeOff(node *debtor, began int64, q question) {
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	limit := node.Value.priced(uint64(q.limit))
	if node.Value.paid == killed || limit == 0 {
		return
	}
	owes := owed(node, q.now, limit)
	since := max(0, between(began, q.now))
	burst := product(uint64(e.most(q)), e.window)
	waiting := waitingOf(node, owes, burst)
	if waits, _ := owes.minus(burst); waiting != 0 && between(q.now, began) != int64(duration(waits, limit)) {
		return
	}
	// Of two limits, the higher one paid more since then.
	if back, over := product(uint64(q.n), e.window).minus(product(uint64(since), max(limit, uint64(q.limit)))); !over {
		if owes, over = owes.minus(back); over {
			owes = wide{}
		}
		owe(node, q.now, owes, limit, waiting)
	}
}

func (e *gcra) untilMore(node *debtor, now, limit, remaining int64) time.Duration {
	if remaining >= e.most(question{limit: limit}) {
		return 0
	}
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	if node.Value.paid == killed {
		return 0
	}
	q := question{now: now, limit: limit}
	burst := product(uint64(e.most(q)), e.window)
	owes, waiting := e.owes(node, q, burst)
	pays := uint64(limit) // after the calls that use what remains
	if remaining == 0 && waiting == 0 {
		pays = node.Value.priced(pays)
	}
	more, _ := owes.plus(product(uint64(remaining+1), e.window)).minus(burst)
	return duration(more, pays)
}

func (e *gcra) lasts(q question) time.Duration {
	return duration(product(uint64(e.most(q)), e.window), uint64(max(1, q.limit)))
}

func (e *gcra) inspect(node *debtor, now int64) (warmth uint64, expired bool) {
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	left := leftOf(node, now)
	return uint64(max(0, left)), left < 0 || left == 0 && node.Aux.Load() == 0
}

func (e *gcra) kill(node *debtor, now int64, force bool) bool {
	node.Value.mu.Lock()
	defer node.Value.mu.Unlock()
	if left := leftOf(node, now); !force && (left > 0 || left == 0 && node.Aux.Load() > 0) {
		return false
	}
	node.Value.paid = killed
	return true
}

func (e *gcra) memory() (bytes, coarse int64) { return 0, 0 }
