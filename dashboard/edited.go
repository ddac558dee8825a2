package dashboard

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
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
	What   string `json:"what,omitempty"` // for people

	resource string // that alone was or is bound; "" if the rule has a pattern
}

// edits are the last ones that were made.
type edits struct {
	mu  sync.Mutex
	all []edited
}

// add notes an edit that was made.
func (l *edits) add(e *edit, who string, at time.Time) {
	one := e.after
	if one == nil {
		one = e.before
	}
	h := e.kind.Head(one, 0)
	note := edited{
		At: stamp(at), Kind: e.kind.Name(), ID: e.id, Action: e.action,
		Who: clipped(escape.Text(who)), What: clipped(e.what()),
	}
	if *h.Match == rule.Exact {
		note.resource = *h.Resource
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, note)
	if len(l.all) > maxEdits {
		l.all = slices.Delete(l.all, 0, len(l.all)-maxEdits)
	}
}

// what returns the fields that a change has changed, and why.
func (e *edit) what() string {
	var changes []string
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
		}
	}
	what := strings.Join(changes, ", ")
	if e.reason == "" {
		return what
	}
	return strings.TrimPrefix(what+": "+escape.Text(e.reason), ": ")
}

func clipped(s string) string {
	if runes := []rune(s); len(runes) > maxEditLength {
		return string(runes[:maxEditLength]) + "…"
	}
	return s
}

// of returns the edits of the last hour that concern a resource, which these rules bind now. It
// reports whether any of them has a name.
func (l *edits) of(resource string, rules []boundView, now time.Time) (some []edited, named bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		bound := e.resource == resource || slices.ContainsFunc(rules, func(r boundView) bool { return r.Kind == e.Kind && r.ID == e.ID })
		if bound && now.Sub(time.Time(e.At)) < editsFor {
			some = append(some, e)
			named = named || e.Who != ""
		}
	}
	return some, named
}
