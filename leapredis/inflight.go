package leapredis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// ErrLeaseEnded is the error of a place whose lease had ended when it was to be renewed. It may
// be another's now.
var ErrLeaseEnded = errors.New("leapredis: the lease of the place has ended")

// InFlight admits or refuses by key: so many calls at a time, over any number of processes.
// Make one with [NewInFlight]. All methods may be called by any number of goroutines at once.
type InFlight struct {
	remote
	local  *limit.InFlight // of Local; else nil
	name   [8]byte         // of this limiter, over all processes
	number atomic.Uint64   // of the last place
	held   atomic.Int64    // places that were taken on a server, and not released
	unsent unsent
}

// NewInFlight makes the limiter of [limit.NewInFlight], shared by any number of processes:
// Config.Limit calls of each key at a time. A call takes a place with [InFlight.Acquire] and
// gives it back with Release; each asks the server once, and waits for Config.Timeout at most.
//
// A place is leased for Config.LeaseTime, so that a process that dies gives back what it had
// when that is over. Never more than Limit calls are inside, by all processes together, as long
// as each ends before its lease does, or renews it: [limit.Place.Renew] has it last as long
// again. A call that does neither is not counted any more from then on. No lease is renewed
// unless a program does so: what hangs, or was forgotten, does not hold a place for ever. A
// release that comes after the lease has ended takes nobody's place.
//
// That holds by the server's clock, and as long as the server keeps what it has acknowledged:
// see "What the limit means". If its clock is set back, leases last longer by that; if it is
// set ahead, they end sooner.
//
// While no server answers, Config.WhenAway decides. With [Local], this process has its share of
// Limit, beside what it holds on the server: at most Limit more are inside then. What could
// not be released is released within seconds of when a server answers again, or else its lease ends.
// Of a call whose answer comes too late or never, or whose caller has left meanwhile, the place is
// given back likewise.
//
// On the server, a key is a sorted set with an entry for each place, which expires with the last
// lease: about 0.15 KB, and 30 bytes more for each place, or 120 if they are more than 128.
// This process keeps nothing of keys but for [Local], for which see Config.MaxKeys.
//
// Window, Burst and Lease must not be set. The error, if any, is [limit.ErrConfig], and
// holds everything that is wrong with cfg as one or more [*limit.ConfigError]. No server is
// asked yet.
func NewInFlight(client Client, cfg Config) (*InFlight, error) {
	if err := cfg.complete(forInFlight, client); err != nil {
		return nil, err
	}
	f := new(InFlight)
	if cfg.WhenAway == Local {
		var err error
		if f.local, err = limit.NewInFlight(limit.Config{Name: cfg.Name, Limit: cfg.MaxLimit, MaxKeys: cfg.MaxKeys}); err != nil {
			return nil, err
		}
	}
	f.begin(&cfg, newLink(client, &cfg))
	f.link.giveBack = func(made *call) {
		if made.args.admits && made.reply[0] > 0 {
			p := &place{f, made.key, made.args.values[1]}
			made.script, made.args = releaseScript, args{}
			made.args.add(p.id)
			if made.send(); made.err != nil {
				f.unsent.add(p)
			}
		}
	}
	f.link.lost = func(made *call) {
		if made.args.admits {
			f.unsent.add(&place{f, made.key, made.args.values[1]})
		}
	}
	_, _ = rand.Read(f.name[:]) // it never fails
	return f, nil
}

// Acquire takes a place of key, or refuses: the decision says which. The place is to be
// released in either case, which does nothing if there is none. It takes no longer than
// Config.Timeout. RetryAfter is 0, since nobody knows when calls end.
//
// The error is not a refusal: it is [limit.ErrKey], [limit.ErrClosed], [limit.ErrCount] if
// Config.LimitFor returns no limit, or that of a ctx that has ended. It is not an error if no
// server answers: see [Policy]. A nil ctx never ends.
func (f *InFlight) Acquire(ctx context.Context, key string) (p limit.Place, d limit.Decision, err error) {
	err = f.acquire(ctx, key, limit.Default, &p, &d)
	return
}

// AcquireLimit is Acquire under a limit of the call's own, as [RateLimiter.AllowLimit].
func (f *InFlight) AcquireLimit(ctx context.Context, key string, own int64) (p limit.Place, d limit.Decision, err error) {
	err = f.acquire(ctx, key, own, &p, &d)
	return
}

func (f *InFlight) acquire(ctx context.Context, key string, own int64, p *limit.Place, d *limit.Decision) error {
	most, err := f.most(ctx, key, own)
	if err != nil {
		return err
	}
	if !f.counts(most) {
		f.allowed.Add(1)
		*d = f.unlimited()
		return nil
	}
	id := f.nextPlace()
	r, err := f.ask(ctx, key, most, id)
	if err == nil {
		*d = f.decision(most, r)
		if d.Allowed {
			f.held.Add(1)
			*p = limit.LeasedPlace(&place{f, f.wire(key), id})
		}
	} else if err = f.without(ctx, err, key, most, p, d); err != nil {
		return err
	}
	if !f.enforces() {
		overlook(d)
	}
	f.count(d)
	return nil
}

// most is the limit of a call, if nothing is wrong with it.
func (f *InFlight) most(ctx context.Context, key string, own int64) (int64, error) {
	if err := f.check(ctx, key, 1); err != nil {
		return 0, err
	}
	return f.limitOf(key, own)
}

// nextPlace is the name of a place, which no other has.
func (f *InFlight) nextPlace() string {
	return string(binary.BigEndian.AppendUint64(f.name[:len(f.name):len(f.name)], f.number.Add(1)))
}

// ask asks a server for a place, or with no id how many are taken.
func (f *InFlight) ask(ctx context.Context, key string, most int64, id string) (reply, error) {
	var a args
	a.add(pack(most, f.cfg.LeaseTime.Microseconds()))
	a.add(id)
	a.admits = id != ""
	r, err := f.link.do(ctx, &request{script: inFlightScript, key: f.wire(key), args: a})
	if err != nil {
		return r, err
	}
	if r[0] < 0 || r[0] > 1 || r[1] < r[0] || r[1] > maxHeld || id != "" && r[0] == 0 && r[1] < most {
		return r, errNoPlaces
	}
	f.instances.beat()
	f.unsent.send(f)
	return r, nil
}

var errNoPlaces = &ReplyError{"ERR the reply is none of the script of calls in flight"}

func (f *InFlight) decision(most int64, r reply) limit.Decision {
	d := limit.Decision{Name: f.cfg.Name, Limit: most, Allowed: r[0] == 1, Charged: r[0], Remaining: max(0, most-r[1])}
	if most == 0 {
		d.RetryAfter, d.MoreAfter = limit.Never, limit.Never
	}
	return d
}

// without decides when the server has returned an error.
func (f *InFlight) without(ctx context.Context, err error, key string, most int64, p *limit.Place, d *limit.Decision) error {
	if err := f.unanswered(err, key); err != nil {
		return err
	}
	switch f.cfg.WhenAway {
	case Local:
		if *p, *d, err = f.local.AcquireLimit(ctx, key, f.instances.count().share(most)); err != nil {
			return err
		}
		if d.RetryAfter == limit.Never && most > 0 {
			d.RetryAfter, d.MoreAfter = f.link.retryAfter(f.wire(key)), 0 // it has no share
		}
	case Allow:
		*d = f.decision(most, reply{min(1, most), 0})
	default:
		*d = f.decision(most, reply{0, most})
		if most > 0 {
			d.RetryAfter, d.Unavailable = f.link.retryAfter(f.wire(key)), true
		}
	}
	d.Degraded = true
	return nil
}

// Peek returns how things stand for a key: whether a place is free, and how many. It takes
// none. It asks the server, or the [Policy] if none answers. The errors are those of Acquire.
func (f *InFlight) Peek(ctx context.Context, key string) (d limit.Decision, err error) {
	most, err := f.most(ctx, key, limit.Default)
	switch {
	case err != nil:
		return d, err
	case !f.counts(most):
		return f.unlimited(), nil
	}
	r, err := f.ask(ctx, key, most, "")
	if err == nil {
		d = f.decision(most, r)
		d.Allowed = r[1] < most
	} else {
		var p limit.Place
		if err = f.without(ctx, err, key, most, &p, &d); err != nil {
			return d, err
		}
		if f.local != nil && d.Allowed {
			p.Release()
			d.Remaining++
		}
		d.Charged = 0
	}
	if !f.enforces() {
		overlook(&d)
	}
	return d, nil
}

// Stats returns the figures that all limiters have. InFlight is the places that this process
// holds, including those whose leases have ended, and those that it took while no server
// answered. They are read one after the other.
func (f *InFlight) Stats() limit.Stats {
	s := f.stats()
	s.InFlight = max(0, f.held.Load())
	if f.local != nil {
		local := f.local.Stats()
		s.Keys, s.MaxKeys, s.Expired, s.Crowded = local.Keys, local.MaxKeys, local.Expired, local.Crowded
		s.InFlight += local.InFlight
	}
	return s
}

// Describe returns the one limit. Its Window is 0.
func (f *InFlight) Describe() []limit.Description {
	return []limit.Description{{Name: f.cfg.Name, Limit: f.limit.Load(), Mode: rule.Mode(f.mode.Load())}}
}

// Close ends the limiter: calls get [limit.ErrClosed]. Places are released as before. The client
// is not closed: it is the caller's. Close may be called more than once; the error is always
// nil.
func (f *InFlight) Close() error {
	if !f.ended.CompareAndSwap(false, true) {
		return nil
	}
	f.beside.close()
	f.instances.close()
	return nil
}

// place is a place on a server.
type place struct {
	of   *InFlight
	wire string
	id   string
}

func (p *place) release() error {
	var a args
	a.add(p.id)
	_, err := p.of.link.do(context.Background(), &request{script: releaseScript, key: p.wire, args: a})
	return err
}

// Release gives the place back. If no server answers, it is tried again until one does.
func (p *place) Release() {
	p.of.held.Add(-1)
	if errors.Is(p.release(), ErrAway) {
		p.of.unsent.add(p)
	} else {
		p.of.unsent.send(p.of)
	}
}

// Renew has the lease last as long from now as it did when the place was taken, or returns
// [ErrLeaseEnded]. The error is also that of ctx, [ErrAway], or a [*ReplyError] if the key on
// the server is no limiter's: then it may be tried again, until the lease ends.
func (p *place) Renew(ctx context.Context) error {
	var a args
	a.add(p.id)
	a.addInt(p.of.cfg.LeaseTime.Microseconds())
	r, err := p.of.link.do(ctx, &request{script: renewScript, key: p.wire, args: a})
	if err == nil && r[0] != 1 {
		return ErrLeaseEnded
	}
	return err
}

// unsent are the places that are to be released when a server answers: with the next call that is
// answered, and every resendTime, since there may be no such call. A lease that ends before needs
// it no more.
type unsent struct {
	mu     sync.Mutex // guards what is below
	places []unreleased
	armed  bool         // a timer will send them
	count  atomic.Int64 // of places; read without the lock
}

type unreleased struct {
	place *place
	until time.Time // its lease has ended by then
}

const (
	maxUnsent  = 10_000 // how many are kept. The leases of others end by themselves
	resendTime = time.Second
)

func (u *unsent) add(p *place) { u.keep(unreleased{p, time.Now().Add(p.of.cfg.LeaseTime)}) }

func (u *unsent) keep(l unreleased) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.places) < maxUnsent {
		u.places = append(u.places, l)
		u.count.Store(int64(len(u.places)))
	}
	if !u.armed {
		u.armed = true
		time.AfterFunc(resendTime, func() { u.resend(l.place.of) })
	}
}

func (u *unsent) resend(f *InFlight) {
	u.mu.Lock()
	u.armed = false
	u.mu.Unlock()
	u.send(f)
}

// send releases them, in a goroutine of its own.
func (u *unsent) send(f *InFlight) {
	if u.count.Load() == 0 {
		return
	}
	u.mu.Lock()
	all := u.places
	u.places = nil
	u.count.Store(0)
	u.mu.Unlock()
	f.beside.run(func() {
		for _, l := range all {
			if !f.ended.Load() && time.Now().Before(l.until) && errors.Is(l.place.release(), ErrAway) {
				u.keep(l)
			}
		}
	})
}
