package leapredis

import (
	"math/bits"
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// NewBurst makes the limiter of [limit.NewBurst], shared by any number of processes: Burst of a
// key at once, and then evenly Limit per Window. It decides as that does, by the server's
// clock, in whole microseconds, and as exactly: 3 in a second are 3 in every second. In one
// true window, wherever it begins, at most Limit + Burst − 1 are admitted, by all processes
// together.
//
// On the server, a key is one string of 28 bytes, or 42 after a reset, which expires when all
// is paid. With its name, its expiry and all that a server keeps of a key, that is about 175
// bytes (Redis 7.0 and 8.0, names of 20 bytes). A decision reads it, and writes it if it admits.
//
// Unlike with [limit.NewBurst], what a key holds is time: another limit changes the number of calls
// that it holds, and not how long they take to be paid off.
//
// There are no leases: a permit is charged when the server is asked, and the promise is about
// when it is used. Of Burst, no more count than take 71 years to come back.
//
// The error, if any, is [limit.ErrConfig], and holds everything that is wrong with cfg as one
// or more [*limit.ConfigError]. No server is asked yet.
func NewBurst(client Client, cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forBurst, client); err != nil {
		return nil, err
	}
	l := newLink(client, &cfg)
	b := &burstScripts{length: cfg.Window.Microseconds(), burst: cfg.Burst, usual: cfg.Limit}
	b.one = b.pack(&question{limit: cfg.Limit, n: 1, most: 1})
	return newRateLimiter(cfg, l, b, limit.NewBurst), nil
}

// burstScripts is the generic cell rate algorithm. Its replies are: taken, how much is owed in
// µs and in parts of the limit of one, the time in µs, how far that is after the server's.
type burstScripts struct {
	length int64 // of a window, in µs
	burst  int64 // 0: as many as the limit
	usual  int64 // the limit that one is under
	one    string
}

// span is a time to pay, in µs and in parts of the limit of one.
type span struct{ whole, part int64 }

// maxSpan is the longest time to pay, in µs.
const maxSpan = 1 << 51

// price is how long n take to be paid under a limit; a limit of 0 is taken for 1, and nothing
// passes: see most.
func (b *burstScripts) price(limit, n int64) span {
	limit = max(1, limit)
	hi, lo := bits.Mul64(uint64(n), uint64(b.length))
	if hi >= uint64(limit) {
		return span{whole: maxSpan}
	}
	whole, part := bits.Div64(hi, lo, uint64(limit))
	if whole >= maxSpan {
		return span{whole: maxSpan}
	}
	return span{int64(whole), int64(part)}
}

// most is how many pass at once under a limit: no more than are paid in maxSpan.
func (b *burstScripts) most(limit int64) int64 {
	burst := b.burst
	if burst == 0 || limit == 0 {
		burst = limit
	}
	hi, lo := bits.Mul64(maxSpan, uint64(limit))
	if hi >= uint64(b.length) {
		return burst
	}
	most, _ := bits.Div64(hi, lo, uint64(b.length))
	return int64(min(uint64(burst), most))
}

// room is how much of burst is not owed: below 0 if more is.
func (b *burstScripts) room(limit int64, owes span) span {
	room := b.price(limit, b.most(limit))
	room.whole -= owes.whole
	if room.part -= owes.part; room.part < 0 {
		room.whole, room.part = room.whole-1, room.part+limit
	}
	return room
}

// fit is how many are paid in that time.
func (b *burstScripts) fit(limit int64, room span) int64 {
	if room.whole < 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room.whole), uint64(limit))
	lo, carry := bits.Add64(lo, uint64(room.part), 0)
	n, _ := bits.Div64(hi+carry, lo, uint64(b.length)) // no more than burst
	return int64(n)
}

// wait is how long it takes until n fit: 0 or less if they do.
func (b *burstScripts) wait(limit, n int64, owes span) int64 {
	more, room := b.price(limit, n), b.room(limit, owes)
	wait := more.whole - room.whole
	if more.part > room.part {
		wait++
	}
	return wait
}

func (b *burstScripts) pack(q *question) string {
	whole, cost := b.price(q.limit, b.most(q.limit)), b.price(q.limit, q.n)
	if q.n > b.most(q.limit) && q.most >= 0 {
		cost = span{whole: maxSpan + 1} // however long that is
	}
	return pack(max(1, q.limit), whole.whole, whole.part, cost.whole, cost.part, q.n, q.most)
}

func (b *burstScripts) request(q question) request {
	if q.limit == 0 && q.most == takeAnyway {
		return request{} // nothing has a price
	}
	a := args{values: [3]string{b.one}, count: 1, admits: q.most >= q.n || q.most == takeSome}
	if q.n != 1 || q.most != 1 || q.limit != b.usual {
		a.values[0] = b.pack(&q)
	}
	if q.most == takeSome {
		one := b.price(q.limit, 1)
		a.values[0] += pack(one.whole, one.part)
	}
	return request{script: burstScript, key: q.wire, args: a}
}

// plausible reports whether the script can have replied so: see that of the counter.
func (b *burstScripts) plausible(q question, r reply) bool {
	taken, owes := r[0], span{r[1], r[2]}
	switch {
	case min(taken, owes.whole, owes.part, r[3], r[4]) < 0, taken > q.n,
		max(owes.whole, r[3]/2, r[4]/2) > maxSpan || owes.part >= max(1, q.limit):
		return false
	case taken >= q.needs() || q.needs() > b.most(q.limit):
		return true
	default: // it refused, so there is a reason
		return b.wait(q.limit, q.needs(), owes) > 0
	}
}

func (b *burstScripts) read(r reply, most, n int64) (d limit.Decision) {
	d.Limit = most
	if most == 0 {
		d.RetryAfter, d.MoreAfter = limit.Never, limit.Never
		return d
	}
	owes, ahead := span{r[1], r[2]}, r[4]
	d.Remaining = b.fit(most, b.room(most, owes))
	if owes != (span{}) {
		d.ResetAfter = time.Duration(ahead+owes.whole) * microsecond
	}
	if owes.part > 0 {
		d.ResetAfter += microsecond
	}
	if d.Remaining < b.most(most) {
		d.MoreAfter = time.Duration(ahead+b.wait(most, d.Remaining+1, owes)) * microsecond
	}
	switch d.Allowed = r[0] >= n; {
	case d.Allowed:
		d.Ticket = b.ticket(r)
	case n > b.most(most):
		d.RetryAfter = limit.Never
	default:
		d.RetryAfter = time.Duration(ahead+b.wait(most, n, owes)) * microsecond
	}
	return d
}

// recall refuses what does not fit now if nobody has come.
func (b *burstScripts) recall(r *refusal, now, most, n int64) (d limit.Decision, certain bool) {
	if most != r.limit {
		return d, false
	}
	later := func(past int64) reply {
		left := r.reply
		ahead := max(0, left[4]-past)
		if left[0], left[1] = 0, left[1]-(past-(left[4]-ahead)); left[1] < 0 {
			left[1], left[2] = 0, 0
		}
		left[4] = ahead
		return left
	}
	if sure := later(r.sinceSent(now)); most > 0 && n <= b.most(most) && b.wait(most, n, span{sure[1], sure[2]}) <= 0 {
		return d, false
	}
	return b.read(later(r.sinceGot(now)), most, n), true
}

func (b *burstScripts) ticket(r reply) int64 { return r[3] }

func (b *burstScripts) refund(key string, ticket, limit, n int64) request {
	if limit == 0 {
		return request{} // nothing has a price
	}
	var a args
	a.add(b.pack(&question{limit: limit, n: n, most: refundIt}) + pack(ticket))
	return request{script: burstScript, key: key, args: a}
}

func (b *burstScripts) reset(key string) request {
	var a args
	a.add(b.pack(&question{limit: 1, n: 1, most: resetIt}))
	return request{script: burstScript, key: key, args: a}
}
