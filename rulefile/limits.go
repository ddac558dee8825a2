package rulefile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Limit is what a rule file says of one of the program's keyed limiters. What it leaves out
// is as the program has made the limiter.
type Limit struct {
	// Limit is how many are admitted for a key: 0, which refuses all, to the MaxLimit of the limiter. Nil: it
	// is left out.
	Limit *int64
	// Window is the length of time that Limit is for; 0 if it is left out. A limiter that runs
	// keeps the one that it has, so another is an error. See [Limit.Config].
	Window time.Duration
	// Burst is how many are admitted at once, for those of [limit.NewBurst]; 0 if it is left out.
	Burst int64
	// Plans are the limits of single keys: 0, which refuses all, to MaxLimit; or [limit.Exempt],
	// −1. Other keys have Limit, or what the limiter's LimitFor returns.
	Plans map[string]int64
	// Mode is left out if it is nil.
	Mode *rule.Mode
}

// Config returns the configuration of a limiter as the file has it, made from the one that the
// program would have without the file: for programs that let the file say the Window, which
// cannot be changed while the limiter runs. MaxLimit becomes large enough for what the file
// says. The Plans are set by [Watch].
func (l Limit) Config(cfg limit.Config) limit.Config {
	most := max(cfg.Limit, cfg.MaxLimit)
	if l.Limit != nil {
		cfg.Limit = *l.Limit
		most = max(most, cfg.Limit)
	}
	for _, of := range l.Plans {
		most = max(most, of)
	}
	cfg.MaxLimit = most
	if l.Window > 0 {
		cfg.Window = l.Window
	}
	if l.Burst > 0 {
		cfg.Burst = l.Burst
	}
	if l.Mode != nil {
		cfg.Mode = *l.Mode
	}
	return cfg
}

// String returns in one line what the file says: "60 per key in 1m; keys with limits of their own: 2
// (0 exempt, 1 blocked)".
func (l Limit) String() string {
	var parts []string
	switch {
	case l.Limit == nil && l.Window > 0:
		parts = append(parts, "in "+field.ShortDuration(l.Window))
	case l.Limit != nil && l.Window > 0:
		parts = append(parts, fmt.Sprintf("%d per key in %s", *l.Limit, field.ShortDuration(l.Window)))
	case l.Limit != nil:
		parts = append(parts, fmt.Sprintf("%d per key", *l.Limit))
	}
	if l.Burst > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.Burst))
	}
	if len(l.Plans) > 0 {
		exempt, blocked := 0, 0
		for _, of := range l.Plans {
			switch of {
			case limit.Exempt:
				exempt++
			case 0:
				blocked++
			}
		}
		parts = append(parts, fmt.Sprintf("keys with limits of their own: %d (%d exempt, %d blocked)", len(l.Plans), exempt, blocked))
	}
	if l.Mode != nil {
		parts = append(parts, "mode "+l.Mode.String())
	}
	return strings.Join(parts, "; ")
}

const limitsKey = "limits"

var (
	limitFields   = []string{"limit", "window", "burst", "plans", "mode"}
	limitSynonyms = map[string]string{
		"threshold": "limit", "max": "limit", "count": "limit", "rate": "limit", "interval": "window", "period": "window", "per": "window",
		"keys": "plans", "items": "plans", "limits": "plans", "overrides": "plans", "size": "burst",
	}
	modes = field.Enum[rule.Mode]()
)

// readLimit is one limit as it was read, and where it stands.
type readLimit struct {
	name string
	Limit
	position                            // fields are by their names in files
	plans    map[string]*document.Field // by key
}

func (l *readLimit) label() string { return "limit " + escape.Quoted(l.name) }

// readLimits reads the mapping of limits, and reports whether it is there and empty.
func (p *parser) readLimits(file string, f *document.Field) (none bool) {
	const want = "a mapping of limits by the names of limiters"
	switch all := f.Value; {
	case all.Type == document.Mapping:
	case all.Type == document.Null && all.Text != "":
		return false // as programs write what they do not have
	case all.Type == document.Null:
		p.fail(file, f.Line, f.Column, limitsKey, "limits is empty; want %s, or {} if none are meant", want)
		return false
	default:
		p.fail(file, all.Line, all.Column, limitsKey, "limits is %v; want %s", all.Type, want)
		return false
	}
	for i := range f.Value.Fields {
		p.readLimit(file, &f.Value.Fields[i])
	}
	return len(f.Value.Fields) == 0
}

func (p *parser) readLimit(file string, f *document.Field) {
	l := &readLimit{name: f.Key, position: position{file: file, line: f.Line, column: f.Column, fields: map[string]*document.Node{}}}
	fail := func(line, column int, field, format string, args ...any) {
		p.note(func() *Error {
			return &Error{File: file, Line: line, Column: column, Field: field, Message: l.label() + ": " + fmt.Sprintf(format, args...)}
		})
	}
	for _, other := range p.limits {
		if other.name == f.Key {
			fail(f.Line, f.Column, limitsKey, "it is there twice, first at %s:%d", escape.Text(other.file), other.line)
			return
		}
	}
	p.limits = append(p.limits, l)
	if f.Key == "" {
		fail(f.Line, f.Column, limitsKey, "its name is empty; want that of a limiter")
	}
	if f.Value.Type != document.Mapping || len(f.Value.Fields) == 0 {
		fail(f.Value.Line, f.Value.Column, limitsKey, "%s; want a mapping with any of %s", emptyOr(f.Value), strings.Join(limitFields, ", "))
		return
	}
	p.readFields(file, f.Value, l.label, limitFields, limitSynonyms, func(of *document.Field) string {
		l.fields[of.Key] = of.Value
		return l.read(p, of)
	}, func(string) {})
}

func emptyOr(n *document.Node) string {
	if n.Type == document.Null || n.Type == document.Mapping && len(n.Fields) == 0 {
		return "empty"
	}
	return n.String()
}

// read reads one field, or says what would be right.
func (l *readLimit) read(p *parser, f *document.Field) (want string) {
	s := f.Value.Scalar()
	switch f.Key {
	case "limit":
		var n int64
		n, want = whole(s, 0)
		l.Limit.Limit = &n
	case "window":
		if l.Window, want = field.Duration.Parse(s); want == "" && (l.Window < limit.MinWindow || l.Window > limit.MaxWindow) {
			l.Window, want = 0, fmt.Sprintf("%v to %s", limit.MinWindow, field.ShortDuration(limit.MaxWindow))
		}
	case "burst":
		l.Burst, want = whole(s, 1)
	case "mode":
		var mode rule.Mode
		mode, want = modes.Parse(s)
		l.Mode = &mode
	case "plans":
		if f.Value.Type != document.Mapping {
			return `a mapping of keys to their limits, such as {acme: 600, partner: -1}`
		}
		l.readPlans(p, f.Value)
	}
	return want
}

// whole reads a number of calls. It is 0 if something else would be right.
func whole(s field.Scalar, least int64) (n int64, want string) {
	n, want = field.Int64.Parse(s)
	switch {
	case want != "":
		return 0, want
	case n < least || n > limit.MaxLimit:
		return 0, fmt.Sprintf("%d to %d", least, int64(limit.MaxLimit))
	}
	return n, ""
}

func (l *readLimit) readPlans(p *parser, all *document.Node) {
	l.Plans = make(map[string]int64, len(all.Fields))
	l.plans = make(map[string]*document.Field, len(all.Fields))
	for i := range all.Fields {
		f := &all.Fields[i]
		first, twice := l.plans[f.Key]
		n, want := whole(f.Value.Scalar(), limit.Exempt)
		switch {
		case twice:
			p.fail(l.file, f.Line, f.Column, "plans", "%s: the plan of %s is there twice, first in line %d", l.label(), escape.Quoted(f.Key), first.Line)
		case f.Key == "" || len(f.Key) > limit.MaxKeyLength:
			p.fail(l.file, f.Line, f.Column, "plans", "%s: a plan of a key of %d bytes; want 1 to %d", l.label(), len(f.Key), limit.MaxKeyLength)
		case want != "":
			p.failPlan(l, f, want+"; -1 admits all, 0 none")
		}
		l.plans[f.Key], l.Plans[f.Key] = f, n
	}
}

func (p *parser) failPlan(l *readLimit, f *document.Field, want string) {
	p.note(func() *Error {
		value := emptyOr(f.Value)
		return &Error{
			File: l.file, Line: f.Value.Line, Column: f.Value.Column, Field: "plans",
			Message: l.label() + ": " + wrongValue("the plan of "+escape.Quoted(f.Key), value, want),
		}
	})
}

// written returns the fields of the limit of that name that are written, in their order.
func (l Limit) written(name string) (fields []writtenField, err error) {
	number := func(name string, n int64) writtenField {
		return writtenField{name: name, value: strconv.FormatInt(n, 10)}
	}
	if l.Limit != nil {
		fields = append(fields, number("limit", *l.Limit))
	}
	if l.Window > 0 {
		fields = append(fields, writtenField{name: "window", value: field.ShortDuration(l.Window), text: true})
	}
	if l.Burst > 0 {
		fields = append(fields, number("burst", l.Burst))
	}
	if l.Plans != nil {
		plans := writtenField{name: "plans", value: "{}"}
		for _, key := range slices.Sorted(maps.Keys(l.Plans)) {
			if !utf8.ValidString(key) {
				return nil, fmt.Errorf("the plan of %s, which is not UTF-8", escape.Quoted(key))
			}
			plans.inner = append(plans.inner, number(key, l.Plans[key]))
		}
		fields = append(fields, plans)
	}
	if l.Mode != nil {
		mode, err := modes.Format(*l.Mode)
		if err != nil {
			return nil, fmt.Errorf("mode: %w", err)
		}
		fields = append(fields, writtenField{name: "mode", value: mode.Text, text: true})
	}
	switch {
	case name == "" || !utf8.ValidString(name):
		return nil, errors.New("its name is empty, or not UTF-8")
	case len(fields) == 0:
		return nil, errors.New("it says nothing")
	}
	return fields, nil
}
