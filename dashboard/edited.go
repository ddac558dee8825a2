package dashboard

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/rule"
)

// Bounds of the edits that are remembered.
const (
	maxEdits      = 200
	maxEditLength = 300 // characters of what is told of one
	editsFor      = time.Hour
)

// edited is an edit that was made, as charts tell it.
type edited struct {
	At     stamp  `json:"at"`
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Action action `json:"action"`
	Who    string `json:"who,omitempty"`
	What   string `json:"what,omitempty"`   // for people
	Source string `json:"source,omitempty"` // of a rule that was changed elsewhere

	bound  [2]target // before and after
	public string    // of What, what everybody may see
}

// target is what a rule binds; zero if the rule is not there.
type target struct {
	match rule.Match
	text  string
}

func targetOf(k kinds.Kind, one *kinds.Rules) target {
	if one == nil {
		return target{}
	}
	h := k.Head(one, 0)
	return target{*h.Match, *h.Resource}
}

// binds reports whether a rule may bind a resource. One that binds what no other rule names may bind all.
func (t target) binds(resource string) bool {
	if t == (target{}) {
		return false
	}
	if t.match == rule.Exact {
		return t.text == resource
	}
	p, err := pattern.Compile(t.match, t.text)
	return err == nil && p.Matches(resource, false)
}

// edits are the last ones that were made.
type edits struct {
	mu  sync.Mutex
	all []edited
}

// add notes an edit that was made; by whom, or in which source.
func (l *edits) add(e *edit, who, source string, at time.Time) {
	what, public := e.what()
	note := edited{
		At: stamp(at), Kind: e.kind.Name(), ID: e.id, Action: e.action,
		Who: clipped(escape.Text(who)), What: clipped(what), Source: source, public: clipped(public),
		bound: [...]target{targetOf(e.kind, e.before), targetOf(e.kind, e.after)},
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, note)
	if len(l.all) > maxEdits {
		l.all = slices.Delete(l.all, 0, len(l.all)-maxEdits)
	}
}

// noteChanges notes which rules were changed elsewhere, by a rule file or the program, since it was called
// before; but not the one of a key, which was changed here. The caller holds editing.
func (d *Dashboard) noteChanges(at time.Time, here ruleKey) {
	rules := d.loaded()
	version := d.versionOfAll(rules)
	if before := d.known; before != nil && version != d.knownVersion {
		for _, k := range kinds.All {
			d.noteChangesOf(k, before, rules, at, here)
		}
	}
	d.known, d.knownVersion = rules, version
}

func (d *Dashboard) noteChangesOf(k kinds.Kind, before, after *kinds.Rules, at time.Time, here ruleKey) {
	note := func(what action, e edit) {
		e.kind, e.action = k, what
		one := e.after
		if one == nil {
			one = e.before
		}
		h := k.Head(one, 0)
		if e.id = *h.ID; here != (ruleKey{k.Name(), e.id}) {
			d.edits.add(&e, "", *h.Source, at)
		}
	}
	old := make(map[string]int, k.Len(before))
	for i := range k.Len(before) {
		old[*k.Head(before, i).ID] = i
	}
	for i := range k.Len(after) {
		was, known := old[*k.Head(after, i).ID]
		delete(old, *k.Head(after, i).ID)
		switch {
		case !known:
			note(add, edit{after: listOfOne(k, after, i)})
		case d.versionOf(k, before, was) != d.versionOf(k, after, i):
			note(change, edit{before: listOfOne(k, before, was), after: listOfOne(k, after, i)})
		}
	}
	for _, i := range slices.Sorted(maps.Values(old)) {
		note(remove, edit{before: listOfOne(k, before, i)})
	}
}

// what returns the fields that a change has changed, and why; and of that, what everybody may see.
func (e *edit) what() (what, public string) {
	var changes, publicChanges []string
	for n, f := range e.kind.Fields() {
		if e.before == nil || e.after == nil {
			break
		}
		value := func(one *kinds.Rules) string {
			s, zero, _ := e.kind.Write(one, 0, n) // rules of a gate are good
			if zero && (s.Text == "" || s.Text == "0") {
				return "none"
			}
			return escape.Text(s.Text)
		}
		if from, to := value(e.before), value(e.after); from != to {
			changes = append(changes, f.Name+" "+from+" → "+to)
			if f.Private {
				publicChanges = append(publicChanges, f.Name)
			} else {
				publicChanges = append(publicChanges, changes[len(changes)-1])
			}
		}
	}
	what, public = strings.Join(changes, ", "), strings.Join(publicChanges, ", ")
	if e.reason != "" {
		what = strings.TrimPrefix(what+": "+escape.Text(e.reason), ": ")
	}
	return what, public
}

func clipped(s string) string {
	if runes := []rune(s); len(runes) > maxEditLength {
		return string(runes[:maxEditLength]) + "…"
	}
	return s
}

// of returns the edits of the last hour that concern a resource.
func (l *edits) of(resource string, now time.Time) (some []edited) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if now.Sub(time.Time(e.At)) < editsFor && (e.bound[0].binds(resource) || e.bound[1].binds(resource)) {
			some = append(some, e)
		}
	}
	return some
}
