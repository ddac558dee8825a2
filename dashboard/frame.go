package dashboard

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/leapgate-go/leapgate/stat"
)

// reading is what is read of a gate for one frame.
type reading struct {
	at           time.Time
	resources    []stat.Snapshot
	rulesVersion string
	ruleSources  []byte         // JSON
	limiters     [sights][]byte // JSON
}

func (d *Dashboard) read() reading {
	r := reading{resources: d.gate.Snapshot()}
	r.at = d.timeOf(r.resources)
	r.rulesVersion = d.versionOfAll(d.loaded())
	r.ruleSources = jsonOf(d.sourceStates())
	all := d.limiters()
	r.limiters[keysShown] = jsonOf(all)
	r.limiters[keysHidden] = r.limiters[keysShown]
	if haveKeys(all) {
		r.limiters[keysHidden] = jsonOf(d.withoutKeys(all))
	}
	return r
}

// jsonOf returns plain values as JSON.
func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values can always be written
	}
	return data
}

// board is what all viewers have seen, and those who come will see first.
type board struct {
	at           time.Time // of the last frame
	rulesVersion string
	resources    table[string, figures]
	rules        table[ruleKey, sums]
	ruleSources  []byte
	limiters     [sights][]byte
	newSources   bool // since the frame before
	newLimiters  bool
	sums         map[ruleKey]sums

	// The last frame, as it is sent; nil until somebody needs it. It is not written again,
	// for viewers may be about to send it.
	delta, full [sights][]byte
	size        int // of the last one that was made
}

func newBoard() *board {
	b := &board{sums: make(map[ruleKey]sums)}
	b.resources.columns, b.rules.columns = figureColumns, sumColumns
	b.resources.name = appendName
	b.resources.values = func(b []byte, f figures) []byte { return f.append(b) }
	b.rules.name = func(b []byte, k ruleKey) []byte {
		return appendName(append(appendText(b, k.kind), ','), k.id)
	}
	b.rules.values = func(b []byte, s sums) []byte { return s.append(b) }
	return b
}

// appendName appends a name, and what it is in a query if that cannot be told from it.
func appendName(b []byte, name string) []byte {
	b = appendText(b, name)
	if raw := rawOf(name); raw != "" {
		b = appendText(append(b, ','), raw)
	}
	return b
}

// update makes the next frame.
func (b *board) update(r reading) {
	b.resources.begin()
	b.rules.begin()
	clear(b.sums)
	for i := range r.resources {
		s := &r.resources[i]
		b.resources.set(s.Resource, figuresOf(s))
		for k := range s.Rules {
			key := ruleKey{s.Rules[k].Kind, s.Rules[k].ID}
			sum := b.sums[key]
			sum.add(&s.Rules[k])
			b.sums[key] = sum
		}
	}
	for key, sum := range b.sums {
		b.rules.set(key, sum)
	}
	b.resources.end()
	b.rules.end()
	b.newSources = !bytes.Equal(b.ruleSources, r.ruleSources)
	b.newLimiters = !bytes.Equal(b.limiters[keysShown], r.limiters[keysShown])
	b.at, b.rulesVersion, b.ruleSources, b.limiters = r.at, r.rulesVersion, r.ruleSources, r.limiters
	clear(b.delta[:])
	clear(b.full[:])
}

// changes returns what the last update changed, for one who may see so much.
func (b *board) changes(s sight) []byte {
	if b.delta[s] == nil {
		b.delta[s] = b.encode(make([]byte, 0, b.size+b.size/4), s, false)
		b.size = len(b.delta[s])
	}
	return b.delta[s]
}

// all returns the last frame for one who has seen none.
func (b *board) all(s sight) []byte {
	if b.full[s] == nil {
		b.full[s] = b.encode(nil, s, true)
	}
	return b.full[s]
}

// encode writes a frame as a message of an event stream. It is written out, because it is what
// costs while somebody looks.
func (b *board) encode(out []byte, s sight, full bool) []byte {
	out = append(out, "event: frame\ndata: {\"at\":"...)
	out = appendStamp(out, b.at)
	if full {
		out = append(out, `,"full":true,"columns":{"resources":`...)
		out = appendTexts(out, b.resources.columns)
		out = append(out, `,"rules":`...)
		out = appendTexts(out, b.rules.columns)
		out = append(out, '}')
	} else {
		out = append(out, `,"full":false`...)
	}
	out = append(out, `,"rulesVersion":`...)
	out = appendText(out, b.rulesVersion)
	out = append(out, `,"resources":`...)
	if full {
		out = b.resources.appendAll(out)
		out = b.rules.appendAll(append(out, `,"rules":`...))
	} else {
		out = b.resources.appendUpdate(out)
		out = b.rules.appendUpdate(append(out, `,"rules":`...))
	}
	if full || b.newSources {
		out = append(append(out, `,"ruleSources":`...), b.ruleSources...)
	}
	if full || b.newLimiters {
		out = append(append(out, `,"limiters":`...), b.limiters[s]...)
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
