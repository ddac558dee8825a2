package resource

import (
	"fmt"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Caller is what is known of the caller of an entry, and with what right it calls.
type Caller struct {
	Origin      string // empty if it was not named
	Priority    bool   // the call may take what the next buckets will have, and wait for them
	Criticality Criticality
}

// Criticality is how much a call matters when not all can be served. The zero value is
// [DefaultCriticality].
type Criticality uint8

// The criticalities. When not all calls can be served, Background ones are refused first,
// then Sheddable ones, and Critical ones last.
const (
	DefaultCriticality Criticality = iota
	Critical
	Sheddable
	Background
)

var criticalities = enum.Enum[Criticality]{What: "criticality", Names: []string{"default", "critical", "sheddable", "background"}}

// String is the name of the criticality: "default", "critical", "sheddable", "background".
func (c Criticality) String() string { return criticalities.String(c) }

// maxArgs is how many arguments an entry can have.
const maxArgs = 4

// Args are the arguments of one call; see [WithArg]. They are valid until the method returns
// that got them. The values, which are text, may be kept.
type Args struct{ of *args }

// Get returns the value of the argument of that name, and reports whether the call has it.
func (a Args) Get(name string) (value string, ok bool) {
	if a.of == nil {
		return "", false
	}
	if i := a.of.index(name); i < a.of.n {
		return a.of.list[i].value, true
	}
	return "", false
}

// Len is how many arguments the call has.
func (a Args) Len() int {
	if a.of == nil {
		return 0
	}
	return a.of.n
}

type args struct {
	list [maxArgs]arg
	n    int
}

type arg struct{ name, value string }

// index is where the argument of that name is, or would be.
func (a *args) index(name string) int {
	for i := range a.n {
		if a.list[i].name == name {
			return i
		}
	}
	return a.n
}

// take fills in the arguments among the options, or returns what is wrong with them.
func (a *args) take(opts []EntryOption) error {
	for i := range opts {
		o := &opts[i]
		if o.kind != argOption {
			continue
		}
		if err := a.add(o.name, o.text); err != nil {
			return err
		}
	}
	return nil
}

func (a *args) add(name, value string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: its name is empty; want 1 to %d bytes", callerror.ErrArg, rule.MaxNameLength)
	case len(name) > rule.MaxNameLength:
		return fmt.Errorf("%w: the name %.32q… has %d bytes; want 1 to %d", callerror.ErrArg, name, len(name), rule.MaxNameLength)
	case len(value) > rule.MaxNameLength:
		return fmt.Errorf("%w: the value of %.64q has %d bytes; want at most %d", callerror.ErrArg, name, len(value), rule.MaxNameLength)
	}
	i := a.index(name)
	if i == maxArgs {
		return fmt.Errorf("%w: %.64q is one too many; want at most %d", callerror.ErrArg, name, maxArgs)
	}
	a.list[i] = arg{name, value}
	a.n = max(a.n, i+1)
	return nil
}

// argsCall is the arguments of one call, and what checks hold for them until it ends. It
// comes from a pool: an entry is a value of few words, and what its admission points to
// would be moved to the heap.
type argsCall struct {
	args
	held []heldArg // of each check that has admitted the call, in order
	told bool      // somebody among them wants to know of the end
}

type heldArg struct {
	by   ArgsFinisher // nil if the check does not want to know of the end
	held any
}

var argsCalls = sync.Pool{New: func() any { return new(argsCall) }}

// drop takes off what the last check holds.
func (c *argsCall) drop() (held any) {
	last := len(c.held) - 1
	held = c.held[last].held
	c.held[last] = heldArg{}
	c.held = c.held[:last]
	return held
}

// finish ends the call.
func (c *argsCall) finish(now, n int64, rt time.Duration, outcome Outcome) {
	for _, h := range c.held {
		if h.by != nil && h.held != nil {
			h.by.FinishArgs(now, n, rt, outcome, h.held)
		}
	}
	c.free()
}

// free returns c, which may be nil, to the pool, which keeps nothing else alive.
func (c *argsCall) free() {
	if c != nil {
		clear(c.held)
		clear(c.list[:c.n])
		c.n, c.held, c.told = 0, c.held[:0], false
		argsCalls.Put(c)
	}
}
