package sentinel

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// translation is one rule of the list, as it is being translated. What makes it impossible is
// kept, and asking for more fields does no harm then.
type translation struct {
	im      *importer
	item    *document.Node
	label   string
	asked   map[string]bool
	losses  []Loss   // if it can be translated
	reasons []reason // why it cannot be
}

type reason struct {
	at      *document.Node
	message string
}

func (t *translation) field(name string) *document.Node {
	for i := len(t.item.Fields) - 1; i >= 0; i-- { // the last one counts, as with Sentinel's readers
		if f := t.item.Fields[i]; f.Key == name && f.Value.Type != document.Null {
			return f.Value
		}
	}
	return nil
}

func (t *translation) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return t.field(name) != nil })
}

func (t *translation) name() {
	if v := t.field("resource"); v != nil && v.Type == document.Text && v.Text != "" {
		t.label += " on " + escape.Quoted(v.Text)
	}
}

// at is where a loss about a field goes: to it, or, if it is not there, to the rule.
func (t *translation) at(name string) *document.Node {
	if v := t.field(name); v != nil {
		return v
	}
	return t.item
}

// skip notes why the rule cannot be translated. Of a field the first reason is enough.
func (t *translation) skip(at *document.Node, format string, args ...any) {
	if at == t.item || !t.isSaid(at) {
		t.reasons = append(t.reasons, reason{at, fmt.Sprintf(format, args...)})
	}
}

func (t *translation) isSaid(at *document.Node) bool {
	return slices.ContainsFunc(t.reasons, func(r reason) bool { return r.at == at })
}

// isBad reports whether something is wrong with a field that is there.
func (t *translation) isBad(name string) bool { return t.has(name) && t.isSaid(t.field(name)) }

func (t *translation) lose(at *document.Node, effect Effect, format string, args ...any) {
	t.losses = append(t.losses, Loss{t.im.file, at.Line, at.Column, effect, t.label + ": " + fmt.Sprintf(format, args...)})
}

// text, number and flag return a field, or its zero if it is not there.
func (t *translation) text(name string) string {
	t.asked[name] = true
	v := t.field(name)
	switch {
	case v == nil:
		return ""
	case v.Type != document.Text:
		t.skip(v, "%s is %s; want text", name, v)
		return ""
	default:
		return v.Text
	}
}

func (t *translation) number(name string) float64 {
	t.asked[name] = true
	v := t.field(name)
	if v == nil {
		return 0
	}
	if v.Type == document.Number && field.IsNumber(v.Text) {
		if n, err := strconv.ParseFloat(v.Text, 64); err == nil {
			return n
		}
	}
	t.skip(v, "%s is %s; want a number", name, v)
	return 0
}

// whole returns a field that is a whole number from 0 to most.
func (t *translation) whole(name string, otherwise, most int64) int64 {
	return t.between(name, otherwise, 0, most)
}

func (t *translation) between(name string, otherwise, least, most int64) int64 {
	t.asked[name] = true
	v := t.field(name)
	if v == nil {
		return otherwise
	}
	n, want := field.Int64.Parse(v.Scalar())
	if want == "" && n >= least && n <= most {
		return n
	}
	t.skip(v, "%s is %s; want a whole number from %d to %d", name, v, least, most)
	return otherwise
}

func (t *translation) flag(name string) bool {
	t.asked[name] = true
	v := t.field(name)
	if v == nil {
		return false
	}
	if v.Type != document.Bool {
		t.skip(v, "%s is %s; want true or false", name, v)
		return false
	}
	return v.Text == "true"
}

// likeGiven is what IDs look like that rules without one get. A rule of another resource might
// get the same.
var likeGiven = regexp.MustCompile(`/[0-9]+$`)

// id returns the ID of the rule. Sentinel does not mind whether it is unique.
func (t *translation) id() string {
	t.asked["id"] = true
	v := t.field("id")
	if v == nil || v.Type != document.Text && v.Type != document.Number || v.Text == "" || v.Text == "0" {
		return ""
	}
	switch {
	case t.im.ids[v.Text]:
		t.lose(v, Changed, "id is %s, as that of a rule before; it gets another", escape.Quoted(v.Text))
		return ""
	case likeGiven.MatchString(v.Text):
		t.lose(v, Changed, "id is %s, like those that Leapgate gives; it gets another", escape.Quoted(v.Text))
		return ""
	default:
		return v.Text
	}
}

// close ends the translation: with the reasons why there is none, or with what was not asked
// for. It reports whether the rule is to be kept.
func (t *translation) close(id string, harmless ...string) bool {
	defer func() {
		slices.SortStableFunc(t.losses, func(a, b Loss) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
		t.im.losses = append(t.im.losses, t.losses...)
	}()
	if t.reasons != nil {
		t.losses = nil
		for _, r := range t.reasons {
			t.lose(r.at, Skipped, "%s", r.message)
		}
		return false
	}
	for _, f := range t.item.Fields {
		if !t.asked[f.Key] && !slices.Contains(harmless, f.Key) && f.Value.Type != document.Null {
			t.lose(&document.Node{Line: f.Line, Column: f.Column}, Ignored, "unknown field %s", escape.Quoted(f.Key))
		}
	}
	if id != "" {
		t.im.ids[id] = true
	}
	return true
}

// add adds a translated rule to a list, unless it has faults.
func add[R any](t *translation, list *[]R, r R, id string, faults rule.Faults, harmless ...string) {
	if t.reasons == nil {
		for _, f := range faults {
			value := fmt.Sprint(f.Value)
			if text, ok := f.Value.(string); ok {
				value = escape.Quoted(text)
			}
			t.skip(t.item, "%s is %s; want %s", f.FileField, value, escape.Text(f.FileWant))
		}
	}
	if t.close(id, harmless...) {
		*list = append(*list, r)
	}
}

func (t *translation) addFlow(r flow.Rule, harmless ...string) {
	add(t, &t.im.rules.Flow, r, r.ID, flow.Kind.Validate([]flow.Rule{r}), harmless...)
}

func (t *translation) addIsolation(r isolation.Rule, harmless ...string) {
	add(t, &t.im.rules.Isolation, r, r.ID, isolation.Kind.Validate([]isolation.Rule{r}), harmless...)
}

func (t *translation) addBreaker(r breaker.Rule, harmless ...string) {
	add(t, &t.im.rules.Breaker, r, r.ID, breaker.Kind.Validate([]breaker.Rule{r}), harmless...)
}
