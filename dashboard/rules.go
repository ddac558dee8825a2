package dashboard

import (
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rulefile"
)

// ruleView is a rule as the API shows it.
type ruleView struct {
	Kind     string          `json:"kind"`
	ID       string          `json:"id"`
	Raw      string          `json:"raw,omitempty"`
	Version  string          `json:"version,omitempty"`
	Source   string          `json:"source,omitempty"`
	Editable bool            `json:"editable"`
	Rule     json.RawMessage `json:"rule,omitempty"` // as in rule files
}

// kind is what differs between flow and isolation rules, which are of type R.
type kind[R comparable] struct {
	name string
	id   func(*R) *string
	// target is the name that a rule without ID is called after.
	target func(*R) string
	source func(*R) *string
	texts  func(*R) []*string // those that may have any bytes
	file   func([]R) rulefile.Rules
	rules  func(rulefile.Rules) []R
	loaded func(*leapgate.Gate) []R
	// complete fills in the defaults of a good rule, and an ID.
	complete func(R) R
	// edit puts its own list of two through change.
	edit func(flows []flow.Rule, isolations []isolation.Rule, change func([]R) ([]R, error)) ([]flow.Rule, []isolation.Rule, error)
}

const everything = "*" // the target of rules with match default

var flowKind = kind[flow.Rule]{
	name: "flow",
	id:   func(r *flow.Rule) *string { return &r.ID },
	target: func(r *flow.Rule) string {
		if r.Match == flow.Default {
			return everything
		}
		return r.Resource
	},
	source: func(r *flow.Rule) *string { return &r.Source },
	texts:  func(r *flow.Rule) []*string { return []*string{&r.ID, &r.Resource, &r.Origin, &r.Associated} },
	file:   func(rules []flow.Rule) rulefile.Rules { return rulefile.Rules{Flow: rules} },
	rules:  func(file rulefile.Rules) []flow.Rule { return file.Flow },
	loaded: (*leapgate.Gate).FlowRules,
	complete: func(r flow.Rule) flow.Rule {
		guard := flow.NewGuard(flow.Config{})
		return completed(guard.Load, guard.Rules, r)
	},
	edit: func(flows []flow.Rule, isolations []isolation.Rule, change func([]flow.Rule) ([]flow.Rule, error)) ([]flow.Rule, []isolation.Rule, error) {
		flows, err := change(flows)
		return flows, isolations, err
	},
}

var isolationKind = kind[isolation.Rule]{
	name: "isolation",
	id:   func(r *isolation.Rule) *string { return &r.ID },
	target: func(r *isolation.Rule) string {
		if r.Match == isolation.Default {
			return everything
		}
		return r.Resource
	},
	source: func(r *isolation.Rule) *string { return &r.Source },
	texts:  func(r *isolation.Rule) []*string { return []*string{&r.ID, &r.Resource} },
	file:   func(rules []isolation.Rule) rulefile.Rules { return rulefile.Rules{Isolation: rules} },
	rules:  func(file rulefile.Rules) []isolation.Rule { return file.Isolation },
	loaded: (*leapgate.Gate).IsolationRules,
	complete: func(r isolation.Rule) isolation.Rule {
		guard := isolation.NewGuard()
		return completed(guard.Load, guard.Rules, r)
	},
	edit: func(flows []flow.Rule, isolations []isolation.Rule, change func([]isolation.Rule) ([]isolation.Rule, error)) ([]flow.Rule, []isolation.Rule, error) {
		isolations, err := change(isolations)
		return flows, isolations, err
	},
}

// completed gives a rule as a guard has it that loaded it.
func completed[R comparable](load func([]R) (resource.Changes, error), rules func() []R, rule R) R {
	if _, err := load([]R{rule}); err != nil {
		return rule // which is no good, as will be found
	}
	return rules()[0]
}

// rules gives the rules of the gate that are wanted, flow rules first.
func (d *Dashboard) rules(wanted func(ruleKey) bool) []ruleView {
	flows, isolations := d.gate.FlowRules(), d.gate.IsolationRules()
	flows = slices.DeleteFunc(flows, func(r flow.Rule) bool { return !wanted(ruleKey{flowKind.name, r.ID}) })
	isolations = slices.DeleteFunc(isolations, func(r isolation.Rule) bool { return !wanted(ruleKey{isolationKind.name, r.ID}) })
	return append(views(d, &flowKind, flows), views(d, &isolationKind, isolations)...)
}

// rule gives one rule of the gate.
func (d *Dashboard) rule(key ruleKey) (ruleView, bool) {
	found := d.rules(func(k ruleKey) bool { return k == key })
	if len(found) == 0 {
		return ruleView{}, false
	}
	return found[0], true
}

func views[R comparable](d *Dashboard, k *kind[R], rules []R) []ruleView {
	all := make([]ruleView, len(rules))
	shown := slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		source := *k.source(r)
		all[i] = ruleView{
			Kind: k.name, ID: *k.id(r), Raw: rawOf(*k.id(r)),
			Version: versionOf(d.seed, *r), Source: source,
			Editable: d.cfg.Authorize != nil && d.writable(source),
		}
		for _, text := range k.texts(&shown[i]) {
			if !utf8.ValidString(*text) {
				*text = string([]rune(*text))
				all[i].Editable = false
			}
		}
	}
	for i, text := range fileForm(k, shown) {
		all[i].Rule = text
	}
	return all
}

// fileForm gives each rule as a rule file in JSON has it.
func fileForm[R comparable](k *kind[R], rules []R) []json.RawMessage {
	data, err := k.file(rules).JSON()
	if err != nil {
		panic(err) // rules of a gate are good, and their texts have been made UTF-8
	}
	var lists map[string][]json.RawMessage
	if err := json.Unmarshal(data, &lists); err != nil {
		panic(err) // it is JSON
	}
	return lists[k.name]
}

// writable tells whether rules of a source can be changed here.
func (d *Dashboard) writable(source string) bool { return slices.Contains(d.sources, source) }

// versionOf gives a text that changes when a rule does. It is that of this dashboard only.
func versionOf[R comparable](seed maphash.Seed, rule R) string {
	return strconv.FormatUint(maphash.Comparable(seed, rule), 16)
}

// versionOf gives a text that changes when any rule does, or their order.
func (d *Dashboard) versionOf(flows []flow.Rule, isolations []isolation.Rule) string {
	var hash maphash.Hash
	hash.SetSeed(d.seed)
	for i := range flows {
		maphash.WriteComparable(&hash, flows[i])
	}
	_ = hash.WriteByte(0) // it never fails
	for i := range isolations {
		maphash.WriteComparable(&hash, isolations[i])
	}
	return strconv.FormatUint(hash.Sum64(), 16)
}

func (d *Dashboard) serveRules(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		d.serveAdd(w, r)
		return
	}
	if !d.known(w, r) {
		return
	}
	flows, isolations := d.gate.FlowRules(), d.gate.IsolationRules()
	answer(w, http.StatusOK, struct {
		Version string     `json:"version"`
		Rules   []ruleView `json:"rules"`
	}{d.versionOf(flows, isolations), append(views(d, &flowKind, flows), views(d, &isolationKind, isolations)...)})
}

// ruleOf gives the parameters that say which rule it is.
func ruleOf(q *query) ruleKey {
	q.required("kind", "flow or isolation")
	return ruleKey{
		q.oneOf("kind", "", flowKind.name, isolationKind.name),
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
	rule, ok := d.rule(key)
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
