package rulefile

import (
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/isolation"
)

// schema is the fields of the rules of a kind, which are of type R.
type schema[R comparable] struct {
	kind   *ruleset.Kind[R]
	fields []field.Field[R]
	names  []string // in the file
	known  map[string]*field.Field[R]
}

func newSchema[R comparable](kind *ruleset.Kind[R]) *schema[R] {
	s := &schema[R]{kind: kind, fields: kind.AllFields(), known: map[string]*field.Field[R]{}}
	for i := range s.fields {
		s.names = append(s.names, s.fields[i].Name)
		s.known[s.fields[i].Name] = &s.fields[i]
	}
	return s
}

// required is the name of the field that a rule must have besides its resource.
func (s *schema[R]) required() string {
	for _, f := range s.fields {
		if f.Required != "" {
			return f.Name
		}
	}
	return ""
}

var (
	flowFields      = newSchema(&flow.Kind)
	isolationFields = newSchema(&isolation.Kind)
)

// scalarOf is the value of a node, if it is a single one.
func scalarOf(n *document.Node) field.Scalar {
	t := field.NoScalar
	switch n.Kind {
	case document.Null:
		t = field.Null
	case document.Bool:
		t = field.Boolean
	case document.Number:
		t = field.Numeral
	case document.Text:
		t = field.Text
	default:
	}
	return field.Scalar{Type: t, Text: n.Text}
}
