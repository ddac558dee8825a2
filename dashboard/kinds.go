package dashboard

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/leapgate-go/leapgate/internal/kinds"
)

type kindView struct {
	Name   string      `json:"name"`
	Status int         `json:"status"`
	Fields []fieldView `json:"fields"`
}

type fieldView struct {
	Name     string          `json:"name"`
	Label    string          `json:"label"`
	Hint     string          `json:"hint"`
	Type     string          `json:"type"`
	Options  []string        `json:"options,omitempty"`
	Default  json.RawMessage `json:"default,omitempty"`
	Required string          `json:"required,omitempty"`
	With     []string        `json:"with,omitempty"`
	Only     *choiceView     `json:"only,omitempty"`
	Seldom   bool            `json:"seldom,omitempty"`
	Switch   bool            `json:"switch,omitempty"`
	Signal   string          `json:"signal,omitempty"`
}

type choiceView struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

func kindViewOf(k kinds.Kind) kindView {
	v := kindView{Name: k.Name(), Status: k.Status()}
	empty := new(kinds.Rules)
	k.Complete(empty, k.Add(empty))
	fields := k.Fields()
	for n, f := range fields {
		field := fieldView{
			Name: f.Name, Label: f.Label, Hint: f.FormHint(), Type: f.Type, Options: f.Options, Required: f.Required,
			Seldom: f.Seldom, Switch: f.Switch, Signal: f.Signal,
		}
		if value, zero, err := k.Write(empty, 0, n); err == nil && !zero {
			field.Default = encodeScalar(value)
		}
		for _, name := range f.With {
			other := slices.IndexFunc(fields, func(f kinds.Field) bool { return f.GoName == name })
			field.With = append(field.With, fields[other].Name)
		}
		if f.Only.Field != "" {
			field.Only = &choiceView{f.Only.Field, f.Only.Value}
		}
		v.Fields = append(v.Fields, field)
	}
	return v
}

func (d *Dashboard) serveKinds(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	all := make([]kindView, len(kinds.All))
	for i, k := range kinds.All {
		all[i] = kindViewOf(k)
	}
	answer(w, http.StatusOK, struct {
		Kinds []kindView `json:"kinds"`
	}{all})
}
