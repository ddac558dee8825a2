package limit

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/bykey"
)

func init() { bykey.New = newRuleEngine }

// ruleEngine is an engine as rules use it: see package bykey.
type ruleEngine struct {
	engine engine
	packed *packedCounter // behind engine, if it is that
	gcra   *gcra          // otherwise
}

func newRuleEngine(c bykey.Config) bykey.Engine {
	cfg := Config{Window: c.Window, MaxKeys: c.MaxKeys, WhenFull: Policy(c.WhenFull), keep: c.Keep}
	if c.Bursts {
		e := newGCRA(cfg)
		return &ruleEngine{engine: &e.store, gcra: e}
	}
	e := newPackedCounter(cfg)
	return &ruleEngine{engine: &e.store, packed: e}
}

func (e *ruleEngine) Take(key string, q bykey.Question, patience time.Duration) bykey.Answer {
	var d Decision
	if e.packed != nil {
		if e.packed.answerKnown(&d, q.Now, q.Limit, key, q.N) {
			return answerOf(&d)
		}
	} else if e.gcra.answerKnown(&d, q.Now, q.Limit, q.Burst, key, q.N) && (d.Allowed || d.RetryAfter > patience) {
		return answerOf(&d)
	}
	d = e.engine.decide(key, questionOf(q, patience, true))
	return answerOf(&d)
}

func (e *ruleEngine) Wait(key string, q bykey.Question, patience time.Duration) time.Duration {
	d := e.engine.decide(key, questionOf(q, patience, false))
	return answerOf(&d).Until(patience)
}

func (e *ruleEngine) Refund(key string, q bykey.Question, c bykey.Charge) {
	d := Decision{Ticket: c.Where, generation: generationOf(uint32(c.Of)), Crowded: c.Of&shared != 0}
	e.engine.refund(key, d, questionOf(q, 0, false))
}

func (e *ruleEngine) Keys() int { return e.engine.stats().Keys }

func questionOf(q bykey.Question, patience time.Duration, take bool) question {
	return question{now: q.Now, limit: q.Limit, n: q.N, take: take, burst: q.Burst, patience: patience}
}

// shared is set in the Of of a charge to what new keys share. The generation is below it.
const shared = 1 << 24

func answerOf(d *Decision) bykey.Answer {
	of := int64(d.generation[0]) | int64(d.generation[1])<<8 | int64(d.generation[2])<<16
	if d.Allowed {
		of |= bykey.Allowed
	}
	if d.Crowded {
		of |= shared
	}
	if d.Unavailable {
		of |= bykey.Crowded
	}
	return bykey.Answer{Remaining: d.Remaining, RetryAfter: d.RetryAfter, Charge: bykey.Charge{Where: d.Ticket, Of: of}}
}
