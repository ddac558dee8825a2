package whatif

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// request is a [Request] as it is replayed.
type request struct {
	at       int64
	duration int64
	cost     int64
	number   int64 // in the log
	resource uint32
	key      uint32 // or noKey
	status   int16
	refused  bool
}

// noKey is the key of a request without one.
const noKey = ^uint32(0)

// maxResources is how many resources there are at most, besides those that rules name; the others
// are one.
const maxResources = 10_000

// maxCost is the most that a request can cost.
const maxCost = 1 << 20

// tables number what requests name.
type tables struct {
	resources, keys *texts
	clipped         int64 // costs that were too large
	late            int64 // requests out of order
}

func newTables(named []string) *tables {
	t := &tables{resources: newTexts(maxResources), keys: newTexts(maxKeys)}
	for _, name := range named {
		t.resources.most++
		t.resources.number(name)
	}
	t.resources.most = max(maxResources, t.resources.len())
	return t
}

// read returns what is replayed of a request.
func (t *tables) read(r *Request) (request, error) {
	at := r.At.UnixNano()
	switch {
	case at < 0 || !time.Unix(0, at).Equal(r.At):
		return request{}, fmt.Errorf("whatif: a request at %v; want a time from 1970 to 2262", r.At)
	case r.Resource == "":
		return request{}, fmt.Errorf("whatif: a request at %v of %s has no resource; want what it asked for", r.At, escape.Quoted(r.Key))
	case r.Duration < 0 || r.Cost < 0:
		return request{}, fmt.Errorf("whatif: a request at %v has the duration %v and the cost %d; want 0 or more", r.At, r.Duration, r.Cost)
	}
	q := request{
		at: at, duration: int64(r.Duration), cost: max(1, r.Cost), status: int16(min(max(r.Status, 0), 999)),
		refused: r.Refused || r.Status == http.StatusTooManyRequests, resource: t.resources.number(r.Resource), key: noKey,
	}
	if r.Key != "" {
		q.key = t.keys.number(r.Key)
	}
	if q.cost > maxCost {
		q.cost = maxCost
		t.clipped++
	}
	return q, nil
}

// placement is where the requests are put that the log has at one time.
type placement uint8

const (
	evenly   placement = iota // over the time that one step of the log is
	together                  // all at its begin
	odd                       // at its begin and, of every second step, at its end
	even                      // likewise, but of the other steps
	placements
)

// at returns the i-th of n times from stamp on.
func (p placement) at(stamp, step int64, i, n int) int64 {
	late := (stamp/step)%2 != 0
	switch p {
	case evenly:
		return stamp + int64(float64(step)*float64(i)/float64(n))
	case odd:
		late = !late
	case even:
	default:
		late = false
	}
	if late {
		return stamp + step - 1
	}
	return stamp
}

// placer puts requests to their times in each lane.
type placer struct {
	lanes []*lane
	where []placement // by lane
	step  int64       // 0: the times are exact
	same  []request   // at one time, not placed yet
	rng   *rand.Rand
}

func newPlacer(cfg *Config) *placer {
	return &placer{step: int64(cfg.Resolution), rng: rand.New(rand.NewPCG(cfg.Seed, 0))}
}

// add takes the next request.
func (p *placer) add(r *request) {
	if p.step == 0 {
		for _, l := range p.lanes {
			l.arrive(r, r.at)
		}
		return
	}
	if len(p.same) > 0 && p.same[0].at != r.at {
		p.place(r.at)
	}
	p.same = append(p.same, *r)
}

// place puts those of one time, if the next are at another.
func (p *placer) place(next int64) {
	n := len(p.same)
	if n == 0 {
		return
	}
	// Logs are sorted by what stands in them: those of one client come together.
	p.rng.Shuffle(n, func(i, j int) { p.same[i], p.same[j] = p.same[j], p.same[i] })
	for k, l := range p.lanes {
		where, stamp := p.where[k], p.same[0].at
		overlaps := where.at(stamp, p.step, n-1, n) > next
		for i := range p.same {
			r := &p.same[i]
			if at := where.at(stamp, p.step, i, n); overlaps {
				l.later(r, at)
			} else {
				l.arrive(r, at)
			}
		}
	}
	p.same = p.same[:0]
}

// finish lets all end.
func (p *placer) finish() {
	p.place(maxTime)
	for _, l := range p.lanes {
		l.finish()
	}
}
