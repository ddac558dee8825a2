package dashboard

import (
	"errors"
	"slices"

	"github.com/leapgate-go/leapgate/rulefile"
)

// RuleSource is where rules of the gate come from, and may fail to. A [*rulefile.Watcher] is one.
type RuleSource interface {
	// Status returns what is active of it and what is wrong with it. Path is its name, as in
	// the Source of its rules. It must be safe for concurrent use.
	Status() rulefile.Status
}

// sourceView is a source of rules as the API shows it.
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

// sourceFault is one thing that is wrong with a source.
type sourceFault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

const mostMessage = 1024 // bytes of what is said of one fault of a source

// ruleSources returns those that are shown: the configured ones, and the files that are written
// here.
func (c *Config) ruleSources() []RuleSource {
	all := slices.Clone(c.RuleSources)
	files, _ := c.Writer.(ruleFiles)
	for _, w := range files {
		if !slices.Contains(all, RuleSource(w)) {
			all = append(all, w)
		}
	}
	return all
}

// sourceStates returns how things stand with each source. One that panics is left out.
func (d *Dashboard) sourceStates() []sourceView {
	all := make([]sourceView, 0, len(d.ruleSources))
	for _, source := range d.ruleSources {
		d.call(&d.sourceFault, "a source of rules", func() { all = append(all, sourceViewOf(source.Status())) })
	}
	return all
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func sourceViewOf(s rulefile.Status) sourceView {
	v := sourceView{
		Source: s.Path, Files: append([]string{}, s.Files...), Rules: total(s.Rules),
		LoadedAt: stamp(s.Since), FailingSince: stamp(s.ErrSince), LosesComments: s.LosesComments,
	}
	var found rulefile.Errors
	if s.Err != nil && !errors.As(s.Err, &found) {
		found = rulefile.Errors{{Message: s.Err.Error()}}
	}
	for _, e := range found {
		if len(v.Errors) == mostFaults {
			v.Errors = append(v.Errors, sourceFault{Message: andMore.Message})
			break
		}
		v.Errors = append(v.Errors, sourceFault{
			File: e.File, Line: e.Line, Column: e.Column, Field: clip(e.Field, mostShown), Message: clip(e.Message, mostMessage),
		})
	}
	return v
}
