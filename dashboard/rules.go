package dashboard

import (
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

type ruleView struct {
	Kind     string          `json:"kind"`
	ID       string          `json:"id"`
	Raw      string          `json:"raw,omitempty"`
	Version  string          `json:"version,omitempty"`
	Source   string          `json:"source,omitempty"`
	Editable bool            `json:"editable"`
	Bounds   string          `json:"bounds,omitempty"`
	Summary  string          `json:"summary,omitempty"`
	Rule     json.RawMessage `json:"rule,omitempty"` // as in rule files
	// Estimable is set if the calls of the resource can be compared with the threshold.
	Estimable bool `json:"estimable,omitempty"`
}

func kindNames() (names []string) {
	for _, k := range kinds.All {
		names = append(names, k.Name())
	}
	return names
}

// kindOf returns the kind of that name, which there is.
func kindOf(name string) kinds.Kind {
	i := slices.IndexFunc(kinds.All, func(k kinds.Kind) bool { return k.Name() == name })
	return kinds.All[i]
}

func listOfOne(k kinds.Kind, rules *kinds.Rules, i int) *kinds.Rules {
	one := new(kinds.Rules)
	k.Set(one, k.Add(one), rules, i)
	return one
}

func (d *Dashboard) loaded() *kinds.Rules {
	rules := kinds.Rules(d.gate.Rules())
	return &rules
}

// rules returns the rules of the gate that are wanted, by kind.
func (d *Dashboard) rules(sees visibility, wanted func(ruleKey) bool) []ruleView {
	rules := d.loaded()
	all := []ruleView{}
	for _, k := range kinds.All {
		k.Delete(rules, func(h field.Head) bool { return !wanted(ruleKey{k.Name(), *h.ID}) })
		all = append(all, d.views(k, rules, sees)...)
	}
	return all
}

func (d *Dashboard) rule(key ruleKey, sees visibility) (ruleView, bool) {
	found := d.rules(sees, func(k ruleKey) bool { return k == key })
	if len(found) == 0 {
		return ruleView{}, false
	}
	return found[0], true
}

func (d *Dashboard) views(k kinds.Kind, rules *kinds.Rules, sees visibility) []ruleView {
	all := make([]ruleView, k.Len(rules))
	shown := new(kinds.Rules)
	k.Append(shown, rules)
	for i := range all {
		h := k.Head(rules, i)
		all[i] = ruleView{
			Kind: k.Name(), ID: *h.ID, Raw: rawOf(*h.ID),
			Version:  d.versionOf(k, rules, i),
			Editable: d.cfg.Authorize != nil && d.writable(*h.Source),
		}
		if mended := validTexts(k, shown, i); mended {
			all[i].Editable = false
		}
		d.hide(sees, ruleText{k, shown, i})
		all[i].Source = *k.Head(shown, i).Source
		all[i].Estimable = k.Name() == flow.Kind.Name && isEstimable(&rules.Flow[i])
		all[i].Bounds = string(k.Bounds(rules, i))
		all[i].Summary, all[i].Rule = k.Describe(shown, i), encodeRule(k, shown, i)
	}
	return all
}

// isEstimable reports whether the threshold of a rule is fixed and holds for all calls of a resource.
func isEstimable(r *flow.Rule) bool {
	return r.Origin == "" && r.Associated == "" && r.Strategy == flow.Direct
}

// validTexts makes the texts of a rule UTF-8, and reports whether any was not.
func validTexts(k kinds.Kind, rules *kinds.Rules, i int) (mended bool) {
	for n := range k.Fields() {
		text, _, err := k.Write(rules, i, n)
		if err != nil || text.Type != field.Text || utf8.ValidString(text.Text) {
			continue
		}
		mended = true
		text.Text = string([]rune(text.Text))
		_ = k.Read(rules, i, n, text) // any text is good for a field that had this one
	}
	return mended
}

// sourceOf returns the source that is shown under a name, to viewers who see all of it or not.
func (d *Dashboard) sourceOf(name string) string {
	for _, source := range d.sources {
		if name == withoutFolder(source) && !d.writable(name) {
			return source
		}
	}
	return name
}

func (d *Dashboard) writable(source string) bool { return slices.Contains(d.sources, source) }

// versionOf returns a text that changes when a rule does. It is that of this dashboard only.
func (d *Dashboard) versionOf(k kinds.Kind, rules *kinds.Rules, i int) string {
	return strconv.FormatUint(k.Hash(d.seed, rules, i), 16)
}

// versionOfAll returns a text that changes when any rule does, or their order.
func (d *Dashboard) versionOfAll(rules *kinds.Rules) string {
	var hash maphash.Hash
	hash.SetSeed(d.seed)
	for _, k := range kinds.All {
		for i := range k.Len(rules) {
			maphash.WriteComparable(&hash, k.Hash(d.seed, rules, i))
		}
		_ = hash.WriteByte(0) // it never fails
	}
	return strconv.FormatUint(hash.Sum64(), 16)
}

func (d *Dashboard) serveRules(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		d.serveAdd(w, r)
		return
	}
	d.large(d.serveAllRules)(w, r)
}

func (d *Dashboard) serveAllRules(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	rules := d.loaded()
	all := []ruleView{}
	sees := d.visibilityOf(r)
	for _, k := range kinds.All {
		all = append(all, d.views(k, rules, sees)...)
	}
	answer(w, http.StatusOK, struct {
		Version string     `json:"version"`
		Rules   []ruleView `json:"rules"`
	}{d.versionOfAll(rules), all})
}

// ruleOf returns the parameters that say which rule it is.
func ruleOf(q *query) ruleKey {
	q.required("kind", strings.Join(kindNames(), " or "))
	return ruleKey{
		q.oneOf("kind", "", kindNames()...),
		q.required("id", "the ID of a rule"),
	}
}

func (d *Dashboard) serveRule(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPut:
		d.serveChange(w, r)
		return
	case http.MethodDelete:
		d.serveRemove(w, r)
		return
	}
	q := parameters(r, "kind", "id")
	key := ruleOf(q)
	if q.failed(w) {
		return
	}
	rule, ok := d.rule(key, d.visibilityOf(r))
	if !ok {
		fail(w, noSuchRule(key))
		return
	}
	answerRule(w, http.StatusOK, rule)
}

// answerRule answers with a rule, and what If-Match needs to change it.
func answerRule(w http.ResponseWriter, status int, rule ruleView) {
	w.Header().Set("ETag", strconv.Quote(rule.Version))
	answer(w, status, rule)
}

func noSuchRule(key ruleKey) problem {
	return problem{Status: http.StatusNotFound, Detail: "there is no " + key.kind + " rule " + quoted(key.id)}
}
