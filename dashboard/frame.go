package dashboard

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

type reading struct {
	at           time.Time
	resources    []stat.Snapshot
	rulesVersion string
	ruleSources  []byte               // JSON
	load         []byte               // JSON
	limiters     [visibilities][]byte // JSON
}

func (d *Dashboard) read() reading {
	r := reading{resources: d.gate.Snapshot()}
	r.at = d.timeOf(r.resources)
	rules := d.loaded()
	r.rulesVersion = d.versionOfAll(rules)
	r.ruleSources = jsonOf(d.sourceStates(rules))
	r.load = jsonOf(d.load())
	all := d.limiters()
	r.limiters[keysShown] = jsonOf(all)
	r.limiters[keysHidden] = r.limiters[keysShown]
	if haveKeys(all) {
		r.limiters[keysHidden] = jsonOf(d.withoutKeys(all))
	}
	return r
}

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values can always be written
	}
	return data
}

// frameEncoder makes the frames of a stream. It knows what all viewers have seen, and what
// new ones will see first.
type frameEncoder struct {
	at           time.Time // of the last frame
	rulesVersion string
	resources    table[string, resourceFigures]
	rules        table[ruleKey, ruleFigures]
	ruleSources  []byte
	load         []byte
	states       []byte // JSON
	limiters     [visibilities][]byte
	newSources   bool // since the frame before
	newStates    bool
	newLoad      bool
	newLimiters  bool
	sums         map[ruleKey]ruleFigures

	// The last frame, as it is sent; nil until somebody needs it. It is not written again,
	// for viewers may be about to send it.
	delta, full [visibilities][]byte
	size        int // of the last one that was made
}

func newFrameEncoder() *frameEncoder {
	e := &frameEncoder{states: []byte("[]"), load: []byte("{}"), sums: make(map[ruleKey]ruleFigures)}
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
	for i := range r.resources {
		s := &r.resources[i]
		e.resources.set(s.Resource, figuresOf(s))
		for k := range s.Rules {
			key := ruleKey{s.Rules[k].Kind, s.Rules[k].ID}
			sum := e.sums[key]
			sum.add(&s.Rules[k])
			e.sums[key] = sum
		}
	}
	for key, sum := range e.sums {
		e.rules.set(key, sum)
	}
	e.resources.end()
	e.rules.end()
	states := e.appendStates(nil, r.resources)
	e.newStates = !bytes.Equal(e.states, states)
	e.states = states
	e.newSources = !bytes.Equal(e.ruleSources, r.ruleSources)
	e.newLoad = !bytes.Equal(e.load, r.load)
	e.newLimiters = !bytes.Equal(e.limiters[keysShown], r.limiters[keysShown])
	e.at, e.rulesVersion, e.ruleSources, e.load, e.limiters = r.at, r.rulesVersion, r.ruleSources, r.load, r.limiters
	clear(e.delta[:])
	clear(e.full[:])
}

// appendStates appends the rules that are in another state than the one in which they began, by the
// rows of their resources and their own. Those that block nothing are left out.
func (e *frameEncoder) appendStates(b []byte, resources []stat.Snapshot) []byte {
	b = append(b, '[')
	for i := range resources {
		s := &resources[i]
		for k := range s.Rules {
			r := &s.Rules[k]
			if r.State == "" || r.State == r.States[0] || r.Mode != rule.Enforce {
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
	if full || e.newSources {
		out = append(append(out, `,"ruleSources":`...), e.ruleSources...)
	}
	if full && len(e.states) > len("[]") || !full && e.newStates {
		out = append(append(out, `,"states":`...), e.states...)
	}
	if full && len(e.load) > len("{}") || !full && e.newLoad {
		out = append(append(out, `,"load":`...), e.load...)
	}
	if full || e.newLimiters {
		out = append(append(out, `,"limiters":`...), e.limiters[s]...)
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
