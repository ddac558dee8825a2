package dashboard

import (
	"errors"
	"time"

	"github.com/leapgate-go/leapgate/internal/kinds"
)

// RuleSource is where rules of the gate come from, and may fail to. A *rulefile.Watcher is one.
// Its methods must be safe for concurrent use.
//
// What else it knows is shown if it has these methods: Files() []string, of what the rules
// in force were read from; FailingSince() time.Time, since when there has been an error;
// LosesComments() bool, which reports whether saving loses comments. An error may consist of
// several, as errors.Join makes them; one with a method
// Parts() (file string, line, column int, field, message string) is shown with its place.
type RuleSource interface {
	// Source returns its name, as in the Source of its rules. It is the same at every call.
	Source() string
	// LastLoad returns when rules were last loaded from it, zero if they never were, and why
	// what it holds now could not be loaded, nil if it could.
	LastLoad() (at time.Time, err error)
}

type sourceView struct {
	Source       string        `json:"source"`
	Files        []string      `json:"files"`
	Rules        int           `json:"rules"`
	LoadedAt     stamp         `json:"loadedAt,omitzero"`
	FailingSince stamp         `json:"failingSince,omitzero"`
	Errors       []sourceFault `json:"errors,omitempty"`
	// LosesComments is whether saving loses comments, which is only of interest where rules
	// are written.
	LosesComments bool `json:"losesComments,omitempty"`
}

type sourceFault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

const maxMessage = 1024 // bytes of what is said of one fault of a source

// sourceStates returns how things stand with each source, given the rules of the gate. One
// that panics is left out.
func (d *Dashboard) sourceStates(rules *kinds.Rules) []sourceView {
	if len(d.ruleSources) == 0 {
		return []sourceView{}
	}
	inForce := make(map[string]int)
	for _, k := range kinds.All {
		for i := range k.Len(rules) {
			inForce[*k.Head(rules, i).Source]++
		}
	}
	all := make([]sourceView, 0, len(d.ruleSources))
	for _, source := range d.ruleSources {
		d.recovered(&d.sourceFault, "a source of rules", func() {
			v := sourceViewOf(source)
			v.Rules = inForce[v.Source]
			all = append(all, v)
		})
	}
	return all
}

func sourceViewOf(s RuleSource) sourceView {
	at, err := s.LastLoad()
	v := sourceView{Source: s.Source(), Files: []string{}, LoadedAt: stamp(at), Errors: sourceFaults(nil, err)}
	if s, ok := s.(interface{ Files() []string }); ok {
		v.Files = append(v.Files, s.Files()...)
	}
	if s, ok := s.(interface{ FailingSince() time.Time }); ok && err != nil {
		v.FailingSince = stamp(s.FailingSince())
	}
	if s, ok := s.(interface{ LosesComments() bool }); ok {
		v.LosesComments = s.LosesComments()
	}
	return v
}

type placed interface {
	error
	Parts() (file string, line, column int, field, message string)
}

func sourceFaults(all []sourceFault, err error) []sourceFault {
	if err == nil || len(all) > maxFaults {
		return all
	}
	if len(all) == maxFaults {
		return append(all, sourceFault{Message: andMore.Message})
	}
	if _, ok := errors.AsType[placed](err); !ok {
		return append(all, sourceFault{Message: clip(err.Error(), maxMessage)})
	}
	switch err := err.(type) { //nolint:errorlint // it is taken apart
	case placed:
		file, line, column, field, message := err.Parts()
		return append(all, sourceFault{file, line, column, clip(field, maxShown), clip(message, maxMessage)})
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			all = sourceFaults(all, one)
		}
		return all
	default:
		return sourceFaults(all, errors.Unwrap(err))
	}
}
