package rulefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Limiter is a keyed limiter of the program that a rule file may change. Those of the packages limit
// and leapredis are. One that has SetPlans or SetBurst besides, as [limit.RateLimiter] does, can have
// plans or another burst; one that has MaxLimit, no limit above that.
type Limiter interface {
	limit.Describer
	SetLimit(limit int64) error
	SetMode(mode rule.Mode) error
}

// program is what a program has for what files say.
type program struct {
	gate     Gate
	limiters map[string]*limiter
}

func newProgram(cfg *Config) *program {
	p := &program{gate: cfg.Gate, limiters: make(map[string]*limiter, len(cfg.Limits))}
	for name, of := range cfg.Limits {
		l := &limiter{Limiter: of, made: of.Describe()[0]}
		l.plans, _ = of.(planned)
		if l.made.Burst > 0 {
			l.bursts, _ = of.(bursting)
		}
		if of, ok := of.(interface{ MaxLimit() int64 }); ok {
			l.most, l.bounded = of.MaxLimit(), true
		}
		p.limiters[name] = l
	}
	return p
}

// limiter is one of the program's limiters.
type limiter struct {
	Limiter
	made      limit.Description // as the program has made it
	most      int64             // the largest limit, if bounded
	bounded   bool
	plans     planned  // nil: it has none
	bursts    bursting // likewise
	overBurst bool     // the burst is that of a file
}

type planned interface {
	SetPlans(byKey map[string]int64) error
}

type bursting interface{ SetBurst(burst int64) error }

// set makes the limiter what a file says of it.
func (l *limiter) set(to Limit) error {
	most, mode := l.made.Limit, l.made.Mode
	if to.Limit != nil {
		most = *to.Limit
	}
	if to.Mode != nil {
		mode = *to.Mode
	}
	if err := l.SetLimit(most); err != nil {
		return err
	}
	if l.plans != nil {
		if err := l.plans.SetPlans(to.Plans); err != nil {
			return err
		}
	}
	if to.Burst > 0 || l.overBurst {
		burst := to.Burst
		if burst == 0 && l.made.Burst != l.made.Limit { // else it goes by the limit
			burst = l.made.Burst
		}
		if err := l.bursts.SetBurst(burst); err != nil {
			return err
		}
		l.overBurst = to.Burst > 0
	}
	return l.SetMode(mode)
}

// setLimits makes all limiters what a file says: those of which it says nothing, what the
// program has made. The error is that of the first that refuses.
func (p *program) setLimits(limits map[string]Limit) (name string, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.limiters)) {
		if err := p.limiters[name].set(limits[name]); err != nil {
			return name, err
		}
	}
	return "", nil
}

// validateProgram reports what the program has nothing for.
func (p *parser) validateProgram(of *program) {
	if of.gate == nil {
		for _, k := range allKinds {
			if len(p.positions[k.index]) > 0 {
				at := &p.positions[k.index][0]
				p.fail(at.file, at.line, at.column, k.Name(), "the program has no gate for rules; want limits alone")
			}
		}
	}
	for _, l := range p.limits {
		if at := of.limiters[l.name]; at != nil {
			p.validateLimit(l, at)
			continue
		}
		names := slices.Sorted(maps.Keys(of.limiters))
		hint := "want no limits: it has none for files"
		if near := nearest(l.name, names, nil); near != "" {
			hint = "did you mean " + escape.Text(near) + "?"
		} else if len(names) > 0 {
			hint = "want one of " + escape.Short(strings.Join(names, ", "))
		}
		p.fail(l.file, l.line, l.column, limitsKey, "the program has no limiter %s; %s", escape.Quoted(l.name), hint)
	}
}

// validateLimit reports what a limiter of the program cannot be.
func (p *parser) validateLimit(l *readLimit, of *limiter) {
	bad := func(name, want string) {
		at := l.fields[name]
		p.failValue(l.file, at, name, l.label, at.String(), want)
	}
	beyond := func(n int64) bool { return of.bounded && n > of.most }
	want := fmt.Sprintf("at most %d, the MaxLimit with which the program has made the limiter", of.most)
	if l.Limit.Limit != nil && beyond(*l.Limit.Limit) {
		bad("limit", want)
	}
	for _, key := range slices.Sorted(maps.Keys(l.plans)) {
		if beyond(l.Plans[key]) {
			p.failPlan(l, l.plans[key], want)
		}
	}
	switch made := of.made.Window; {
	case l.Window == 0 || l.Window == made:
	case made == 0:
		bad("window", "none: the limiter counts calls in flight")
	default:
		bad("window", field.ShortDuration(made)+", with which the program has made the limiter: that of a running one cannot change")
	}
	switch {
	case l.Burst == 0 || of.bursts != nil:
	case of.made.Burst > 0:
		bad("burst", "none: that of this limiter is the program's, and cannot change while it runs")
	default:
		bad("burst", "none: the limiter has no burst, as those of limit.NewBurst have")
	}
	if len(l.Plans) > 0 && of.plans == nil {
		bad("plans", "none: the limiter has no limits of single keys")
	}
}

// refusedLimit returns that a limiter has refused what the file says.
func (p *parser) refusedLimit(path, name string, refusal error) Errors {
	e := &Error{File: path, Message: "the limiter " + escape.Quoted(name) + " refused: " + oneLine(refusal), Err: refusal}
	for _, l := range p.limits {
		if l.name == name {
			e.File, e.Line, e.Column = l.file, l.line, l.column
		}
	}
	return Errors{e}
}
