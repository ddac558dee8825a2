package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
)

type action string

const (
	add    action = "add"
	change action = "change"
	remove action = "remove"
)

// edit is something that is done to one rule of a kind. Its rules are lists of one.
type edit struct {
	kind    kinds.Kind
	action  action
	id      string       // of add, it may be empty
	version string       // that the rule must have; not of add
	source  string       // where the rule is kept
	reason  string       // why, for the log; it may be empty
	rule    *kinds.Rules // as it shall be; not of remove

	before, after *kinds.Rules // what it was and is, if it was and is
}

// refusal is the error of an edit that is answered with a problem.
type refusal struct{ problem }

func (r *refusal) Error() string { return r.Detail }

func refused(status int, format string, args ...any) error {
	return &refusal{problem{Status: status, Detail: fmt.Sprintf(format, args...)}}
}

// errStale is the error of an edit of a rule that has changed since it was read.
var errStale = errors.New("the rule has changed since you read it")

// apply carries the edit out in the rules of the gate, which are changed.
func (e *edit) apply(d *Dashboard, rules *kinds.Rules) error {
	k := e.kind
	i := indexOf(k, rules, e.id)
	if e.action == add {
		if e.id != "" && i >= 0 {
			return &refusal{faulty(http.StatusUnprocessableEntity, []fault{valueFault("id", quoted(e.id), "one that no other "+k.Name()+" rule has")})}
		}
		i = k.Len(rules)
		k.Append(rules, e.rule)
		h := k.Head(rules, i)
		*h.ID, *h.Source = e.id, e.source
		k.Number(rules, i) // as loading would
		e.id, e.after = *h.ID, listOfOne(k, rules, i)
		return e.explained()
	}
	if i < 0 {
		return &refusal{noSuchRule(ruleKey{k.Name(), e.id})}
	}
	if d.versionOf(k, rules, i) != e.version || *k.Head(rules, i).Source != e.source {
		return errStale
	}
	e.before = listOfOne(k, rules, i)
	if validTexts(k, listOfOne(k, rules, i), 0) {
		return refused(http.StatusConflict, "the rule has names that are not UTF-8, and cannot be changed here")
	}
	if e.action == remove {
		k.Delete(rules, func(h field.Head) bool { return *h.ID == e.id })
		return e.explained()
	}
	k.Set(rules, i, e.rule, 0)
	h := k.Head(rules, i)
	*h.ID, *h.Source = e.id, e.source
	e.after = listOfOne(k, rules, i)
	return e.explained()
}

// explained returns an error if the edit turns an operator's switch without a reason. A rule that
// is not there has none turned.
func (e *edit) explained() error {
	if e.reason != "" {
		return nil
	}
	for n, f := range e.kind.Fields() {
		position := func(one *kinds.Rules) string {
			if one == nil {
				return f.Options[0]
			}
			value, _, _ := e.kind.Write(one, 0, n) // rules of a gate are good
			return value.Text
		}
		if !f.Switch {
			continue
		}
		if from, to := position(e.before), position(e.after); from != to {
			want := fmt.Sprintf("why %s goes from %s to %s, in up to %d characters", f.Name, from, to, maxReasonLength)
			return &refusal{faulty(http.StatusBadRequest, []fault{valueFault("reason", "", want)})}
		}
	}
	return nil
}

func (d *Dashboard) perform(ctx context.Context, e *edit, who string) error {
	d.editing.Lock()
	defer d.editing.Unlock()
	began := d.timeOf(nil) // what follows from the edit comes after it
	if d.past != nil {
		d.noteChanges(began, ruleKey{})
	}
	if e.action != add {
		rules := d.loaded()
		if i := indexOf(e.kind, rules, e.id); i >= 0 {
			e.source = *e.kind.Head(rules, i).Source
		}
	}
	var err error
	switch {
	case !d.writable(e.source):
		return refused(http.StatusConflict, "the rule is kept in %s, which cannot be written here: change it there", escape.Text(e.source))
	case e.source == "":
		err = d.gate.EditRules(func(all *leapgate.Rules) error { return e.apply(d, (*kinds.Rules)(all)) })
	default:
		err = keeperError(d.keepers[e.source].Save(func() (leapgate.Rules, error) { return d.next(e) }))
		if err == nil && e.before == nil && e.after == nil {
			err = refused(http.StatusBadGateway, "%s has not asked for the rules that it should keep", escape.Text(e.source))
		}
	}
	if err == nil {
		e.log(ctx, d.cfg.Logger, who)
		d.edits.add(e, who, "", began)
		if d.past != nil {
			d.noteChanges(began, ruleKey{e.kind.Name(), e.id})
		}
	}
	return err
}

// next returns all rules of the source of an edit, as they are after it.
func (d *Dashboard) next(e *edit) (leapgate.Rules, error) {
	rules := d.loaded()
	if err := e.apply(d, rules); err != nil {
		return leapgate.Rules{}, err
	}
	for _, k := range kinds.All {
		k.Delete(rules, func(h field.Head) bool { return *h.Source != e.source })
	}
	return leapgate.Rules(*rules), nil
}

// indexOf is the index of the rule with that ID, −1 if there is none.
func indexOf(k kinds.Kind, rules *kinds.Rules, id string) int {
	for i := range k.Len(rules) {
		if *k.Head(rules, i).ID == id {
			return i
		}
	}
	return -1
}

// keeperError returns what is told of the error of a RuleKeeper.
func keeperError(err error) error {
	var r *refusal
	var conflict interface{ Conflict() bool }
	switch {
	case err == nil || errors.Is(err, errStale) || errors.As(err, &r) || errors.Is(err, rule.ErrFault) || errors.Is(err, leapgate.ErrClosed):
		return err // what it was told
	case errors.As(err, &conflict) && conflict.Conflict():
		return refused(http.StatusConflict, "%s", escape.Text(err.Error()))
	default:
		return refused(http.StatusBadGateway, "the rule was not saved: %s", escape.Text(err.Error()))
	}
}

// log writes an edit to the log. Whatever a rule or a reason holds, it has no control characters.
func (e *edit) log(ctx context.Context, logger *slog.Logger, who string) {
	text := func(name string, one *kinds.Rules) slog.Attr {
		if one == nil {
			return slog.Attr{} // which is left out
		}
		return slog.String(name, escape.Text(string(encodeRule(e.kind, one, 0))))
	}
	attrs := []slog.Attr{
		slog.String("who", escape.Text(who)), slog.String("action", string(e.action)),
		slog.String("kind", e.kind.Name()), slog.String("id", escape.Text(e.id)),
		text("from", e.before), text("to", e.after),
	}
	if e.reason != "" {
		attrs = append(attrs, slog.String("reason", escape.Text(e.reason)))
	}
	if e.source != "" {
		attrs = append(attrs, slog.String("source", escape.Text(e.source)))
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "leapgate: rule changed on the dashboard", attrs...)
}

func (d *Dashboard) failEdit(w http.ResponseWriter, key ruleKey, err error) {
	var r *refusal
	switch {
	case errors.As(err, &r):
		fail(w, r.problem)
	case errors.Is(err, errStale):
		p := problem{Status: http.StatusPreconditionFailed, Detail: errStale.Error()}
		if rule, ok := d.rule(key, seesRules); ok {
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
