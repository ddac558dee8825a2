package dashboard

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

type reading struct {
	at           time.Time
	resources    []stat.Snapshot
	rules        *kinds.Rules
	rulesVersion string
	load         []byte               // JSON
	ruleSources  [visibilities][]byte // JSON
	limiters     [visibilities][]byte // JSON
	forgotten    int64                // resources without their history
}

func (d *Dashboard) read() reading {
	r := reading{resources: d.gate.Snapshot(), forgotten: d.past.lost()}
	r.at = d.timeOf(r.resources)
	rules := d.loaded()
	r.rules = rules
	r.rulesVersion = d.versionOfAll(rules)
	r.load = jsonOf(d.load())
	r.ruleSources = d.encode(d.sourceStates(rules), seesRules)
	r.limiters = d.encode(d.limiters(), seesKeys)
	return r
}

// encode returns part of a frame as JSON for viewers of each visibility, of which one decides.
func (d *Dashboard) encode(part any, all visibility) (encoded [visibilities][]byte) {
	shown := jsonOf(part)
	d.hide(0, part)
	hidden := jsonOf(part)
	for sees := range visibilities {
		encoded[sees] = hidden
		if sees&all != 0 {
			encoded[sees] = shown
		}
	}
	return encoded
}

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values can always be written
	}
	return data
}

// section is a part of a frame that is sent whole when it has changed.
type section struct {
	name    string
	absent  string // JSON that is left out of full frames
	json    [visibilities][]byte
	changed bool // since the frame before
}

func (s *section) set(json [visibilities][]byte) {
	s.changed = !slices.EqualFunc(s.json[:], json[:], bytes.Equal)
	s.json = json
}

// forAll returns JSON that viewers of each visibility may see.
func forAll(json []byte) (same [visibilities][]byte) {
	for sees := range same {
		same[sees] = json
	}
	return same
}

// frameEncoder makes the frames of a stream. It knows what all viewers have seen, and what
// new ones will see first.
type frameEncoder struct {
	at           time.Time // of the last frame
	rulesVersion string
	resources    table[string, resourceFigures]
	rules        table[ruleKey, ruleFigures]
	sections     [5]section
	sums         map[ruleKey]ruleFigures
	bounds       map[ruleKey]ruleset.Figure

	// The last frame, as it is sent; nil until somebody needs it. It is not written again,
	// for viewers may be about to send it.
	delta, full [visibilities][]byte
	size        int // of the last one that was made
}

func newFrameEncoder() *frameEncoder {
	e := &frameEncoder{sums: make(map[ruleKey]ruleFigures), sections: [...]section{
		{name: "ruleSources"}, {name: "states", absent: "[]"}, {name: "load", absent: "{}"}, {name: "forgotten", absent: "0"}, {name: "limiters"},
	}}
	for i := range e.sections {
		e.sections[i].json = forAll([]byte(e.sections[i].absent))
	}
	e.resources.columns, e.rules.columns = resourceColumns, ruleColumns
	e.resources.name = appendName
	e.resources.values = func(b []byte, f resourceFigures) []byte { return f.append(b) }
	e.rules.name = func(b []byte, k ruleKey) []byte {
		return appendName(append(appendText(b, k.kind), ','), k.id)
	}
	e.rules.values = func(b []byte, f ruleFigures) []byte { return f.append(b) }
	return e
}

// appendName appends a name, and what it is in a query if that cannot be told from it.
func appendName(b []byte, name string) []byte {
	b = appendText(b, name)
	if raw := rawOf(name); raw != "" {
		b = appendText(append(b, ','), raw)
	}
	return b
}

func (e *frameEncoder) update(r reading) {
	e.resources.begin()
	e.rules.begin()
	clear(e.sums)
	if e.rulesVersion != r.rulesVersion {
		e.bounds = boundsOf(r.rules)
	}
	for i := range r.resources {
		s := &r.resources[i]
		for k := range s.Rules {
			key := ruleKey{s.Rules[k].Kind, s.Rules[k].ID}
			sum := e.sums[key]
			sum.add(s.Resource, &s.Rules[k])
			e.sums[key] = sum
		}
	}
	for key, sum := range e.sums {
		e.rules.set(key, sum)
	}
	for i := range r.resources {
		s := &r.resources[i]
		f := figuresOf(s)
		e.blame(&f, s)
		e.resources.set(s.Resource, f)
	}
	e.resources.end()
	e.rules.end()
	states := e.appendStates(nil, r.resources)
	for i, json := range [...][visibilities][]byte{
		r.ruleSources, forAll(states), forAll(r.load), forAll(strconv.AppendInt(nil, r.forgotten, 10)), r.limiters,
	} {
		e.sections[i].set(json)
	}
	e.at, e.rulesVersion = r.at, r.rulesVersion
	clear(e.delta[:])
	clear(e.full[:])
}

// boundsOf returns which figure of its resource each rule bounds, for all callers.
func boundsOf(rules *kinds.Rules) map[ruleKey]ruleset.Figure {
	bounds := make(map[ruleKey]ruleset.Figure)
	for _, k := range kinds.All {
		for i := range k.Len(rules) {
			figure := k.Bounds(rules, i)
			if figure == ruleset.InFlight || figure == ruleset.Passes && k.Admits(rules, i) != (ruleset.Calls{}) {
				bounds[ruleKey{k.Name(), *k.Head(rules, i).ID}] = figure
			}
		}
	}
	return bounds
}

// blame notes in the figures of a resource which of its rules refused last, and which is nearest to
// its limit. Those that block nothing are left out.
func (e *frameEncoder) blame(f *resourceFigures, s *stat.Snapshot) {
	var last time.Time
	for k := range s.Rules {
		r := &s.Rules[k]
		if r.Mode != rule.Enforce {
			continue
		}
		key := ruleKey{r.Kind, r.ID}
		if r.LastRefusal.At.After(last) {
			last, f.refusedBy = r.LastRefusal.At, e.rules.rows[key].number
		}
		var use float64
		switch figure := e.bounds[key]; {
		case r.Effective <= 0:
		case figure == ruleset.InFlight:
			use = float64(s.Concurrency) / r.Effective
		case figure == ruleset.Passes && r.Interval > time.Second:
			use = float64(r.Used) / r.Effective
		case figure == ruleset.Passes:
			limit := r.Effective / r.Interval.Seconds()
			use = s.PassQPS / limit
			if f.limit == 0 || limit < f.limit {
				f.limit = limit
			}
		}
		if use = math.Round(use*1000) / 1000; use > f.use {
			f.use, f.fullest = use, e.rules.rows[key].number
		}
	}
}

// appendStates appends the rules that are in another state than the one in which they began, by the
// rows of their resources and their own. Those that block nothing are left out, and so is the resource other
// for a state that it shares with resources that somebody knows.
func (e *frameEncoder) appendStates(b []byte, resources []stat.Snapshot) []byte {
	b = append(b, '[')
	for i := range resources {
		s := &resources[i]
		for k := range s.Rules {
			r := &s.Rules[k]
			if r.State == "" || r.State == r.States[0] || r.Mode != rule.Enforce {
				continue
			}
			if r.SharedState && s.Resource == resource.Other && e.boundToNamed(ruleKey{r.Kind, r.ID}) {
				continue
			}
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '['), e.resources.rows[s.Resource].number, 10)
			b = strconv.AppendInt(append(b, ','), e.rules.rows[ruleKey{r.Kind, r.ID}].number, 10)
			b = append(appendText(append(b, ','), r.State), ']')
		}
	}
	return append(b, ']')
}

// boundToNamed reports whether a rule binds any resource except other.
func (e *frameEncoder) boundToNamed(key ruleKey) bool {
	return e.sums[key].resources > e.sums[key].unnamed
}

// changes returns what the last update changed, for one who may see so much.
func (e *frameEncoder) changes(s visibility) []byte {
	if e.delta[s] == nil {
		e.delta[s] = e.encode(make([]byte, 0, e.size+e.size/4), s, false)
		e.size = len(e.delta[s])
	}
	return e.delta[s]
}

// all returns the last frame for one who has seen none.
func (e *frameEncoder) all(s visibility) []byte {
	if e.full[s] == nil {
		e.full[s] = e.encode(nil, s, true)
	}
	return e.full[s]
}

// encode writes a frame as a message of an event stream. It is written out, because it is what
// costs while somebody looks.
func (e *frameEncoder) encode(out []byte, s visibility, full bool) []byte {
	out = append(out, "event: frame\ndata: {\"at\":"...)
	out = appendStamp(out, e.at)
	if full {
		out = append(out, `,"full":true,"columns":{"resources":`...)
		out = appendTexts(out, e.resources.columns)
		out = append(out, `,"rules":`...)
		out = appendTexts(out, e.rules.columns)
		out = append(out, '}')
	} else {
		out = append(out, `,"full":false`...)
	}
	out = append(out, `,"rulesVersion":`...)
	out = appendText(out, e.rulesVersion)
	out = append(out, `,"resources":`...)
	if full {
		out = e.resources.appendAll(out)
		out = e.rules.appendAll(append(out, `,"rules":`...))
	} else {
		out = e.resources.appendUpdate(out)
		out = e.rules.appendUpdate(append(out, `,"rules":`...))
	}
	for i := range e.sections {
		if part := &e.sections[i]; part.changed && !full || full && string(part.json[s]) != part.absent {
			out = append(append(append(append(out, `,"`...), part.name...), `":`...), part.json[s]...)
		}
	}
	return append(out, "}\n\n"...)
}

func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	return append(b, ']')
}
