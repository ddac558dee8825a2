package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rulefile"
)

// action is what is done to a rule.
type action string

const (
	add    action = "add"
	change action = "change"
	remove action = "remove"
)

// edit is something that is done to one rule of type R.
type edit[R comparable] struct {
	action  action
	id      string // of add, it may be empty
	version string // that the rule must have; not of add
	source  string // where the rule is kept
	rule    R      // as it shall be; not of remove

	before, after *R // what it was and is, if it was and is
}

// refusal is the error of an edit that is answered with a problem.
type refusal struct{ problem }

func (r *refusal) Error() string { return r.Detail }

func refused(status int, format string, args ...any) error {
	return &refusal{problem{Status: status, Detail: fmt.Sprintf(format, args...)}}
}

// errStale is the error of an edit of a rule that has changed since it was read.
var errStale = errors.New("the rule has changed since you read it")

// in carries the edit out in a list of rules, which may be changed.
func (e *edit[R]) in(d *Dashboard, k *kind[R], rules []R) ([]R, error) {
	i := slices.IndexFunc(rules, func(r R) bool { return *k.id(&r) == e.id })
	if e.action == add {
		switch {
		case e.id == "":
			e.id = freeID(k, rules, k.target(&e.rule))
		case i >= 0:
			return nil, &refusal{faulty(http.StatusUnprocessableEntity, []fault{valueFault("id", quoted(e.id), "one that no other "+k.name+" rule has")})}
		}
		*k.id(&e.rule), *k.source(&e.rule) = e.id, e.source
		e.after = &e.rule
		return append(rules, e.rule), nil
	}
	if i < 0 {
		return nil, &refusal{noSuchRule(ruleKey{k.name, e.id})}
	}
	old := rules[i]
	if versionOf(d.seed, old) != e.version || *k.source(&old) != e.source {
		return nil, errStale
	}
	for _, text := range k.texts(&old) {
		if !utf8.ValidString(*text) {
			return nil, refused(http.StatusConflict, "the rule has names that are not UTF-8, and cannot be changed here")
		}
	}
	e.before = &old
	if e.action == remove {
		return slices.Delete(rules, i, i+1), nil
	}
	*k.id(&e.rule), *k.source(&e.rule) = e.id, e.source
	e.after = &e.rule
	rules[i] = e.rule
	return rules, nil
}

// freeID gives an ID for a rule that has none, as loading would.
func freeID[R comparable](k *kind[R], rules []R, target string) string {
	for n := 1; ; n++ {
		id := target + "/" + strconv.Itoa(n)
		if !slices.ContainsFunc(rules, func(r R) bool { return *k.id(&r) == id }) {
			return id
		}
	}
}

// perform carries an edit out, and tells the log who wanted it.
func perform[R comparable](ctx context.Context, d *Dashboard, k *kind[R], e *edit[R], who string) error {
	d.editing.Lock()
	defer d.editing.Unlock()
	if e.action != add {
		for _, r := range k.loaded(d.gate) {
			if *k.id(&r) == e.id {
				e.source = *k.source(&r)
			}
		}
	}
	var err error
	switch {
	case !d.writable(e.source):
		return refused(http.StatusConflict, "the rule is kept in %s, which cannot be written here: change it there", escape.Text(e.source))
	case e.source == "":
		err = d.gate.EditRules(func(flows []flow.Rule, isolations []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
			return k.edit(flows, isolations, func(rules []R) ([]R, error) { return e.in(d, k, rules) })
		})
	default:
		err = d.cfg.Writer.Write(context.WithoutCancel(ctx), e.source, func() (rulefile.Rules, error) { return next(d, k, e) })
		err = ofWriter(err)
	}
	if err == nil {
		logEdit(ctx, d.cfg.Logger, k, e, who)
	}
	return err
}

// next gives all rules of the source of an edit, as they are after it.
func next[R comparable](d *Dashboard, k *kind[R], e *edit[R]) (rulefile.Rules, error) {
	flows, isolations, err := k.edit(d.gate.FlowRules(), d.gate.IsolationRules(), func(rules []R) ([]R, error) { return e.in(d, k, rules) })
	if err != nil {
		return rulefile.Rules{}, err
	}
	return rulefile.Rules{
		Flow:      slices.DeleteFunc(flows, func(r flow.Rule) bool { return r.Source != e.source }),
		Isolation: slices.DeleteFunc(isolations, func(r isolation.Rule) bool { return r.Source != e.source }),
	}, nil
}

// ofWriter gives the error of a Writer.
func ofWriter(err error) error {
	var r *refusal
	switch {
	case err == nil || errors.Is(err, errStale) || errors.As(err, &r) || errors.Is(err, flow.ErrRule) || errors.Is(err, leapgate.ErrClosed):
		return err // what it was told
	case errors.Is(err, rulefile.ErrChanged):
		return refused(http.StatusConflict, "%s", escape.Text(err.Error()))
	default:
		return refused(http.StatusBadGateway, "the rule was not saved: %s", escape.Text(err.Error()))
	}
}

// logEdit tells the log of an edit. Whatever a rule holds, it has no control characters.
func logEdit[R comparable](ctx context.Context, logger *slog.Logger, k *kind[R], e *edit[R], who string) {
	text := func(name string, r *R) slog.Attr {
		if r == nil {
			return slog.Attr{} // which is left out
		}
		return slog.String(name, escape.Text(string(fileForm(k, []R{*r})[0])))
	}
	attrs := []slog.Attr{
		slog.String("who", escape.Text(who)), slog.String("action", string(e.action)),
		slog.String("kind", k.name), slog.String("id", escape.Text(e.id)),
		text("from", e.before), text("to", e.after),
	}
	if e.source != "" {
		attrs = append(attrs, slog.String("source", escape.Text(e.source)))
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "leapgate: rule changed on the dashboard", attrs...)
}

// failEdit answers an edit that was refused.
func (d *Dashboard) failEdit(w http.ResponseWriter, key ruleKey, err error) {
	var r *refusal
	switch {
	case errors.As(err, &r):
		fail(w, r.problem)
	case errors.Is(err, errStale):
		p := problem{Status: http.StatusPreconditionFailed, Detail: errStale.Error()}
		if rule, ok := d.rule(key); ok {
			p.Current = &rule
		}
		fail(w, p)
	case errors.Is(err, leapgate.ErrClosed):
		fail(w, problem{Status: http.StatusConflict, Detail: "the gate is closed"})
	default:
		// The rule was good by itself, so it does not go with others.
		fail(w, problem{Status: http.StatusUnprocessableEntity, Detail: escape.Text(err.Error()), Faults: []fault{{Message: escape.Text(err.Error())}}})
	}
}
