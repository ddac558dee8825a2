package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxQuery is the length of the longest query that is read, in bytes. The longest names
	// fit, with each byte escaped.
	maxQuery = 16 << 10
	// maxFaults is how many faults one answer has. Nobody reads more.
	maxFaults = 16
)

// andMore stands for the faults that are not told.
var andMore = fault{Message: "and more"}

// query reads the parameters of a request, and collects what is wrong with them.
type query struct {
	values url.Values
	faults []fault
}

// parameters reads the query of a request, which may have those of these names, once each.
func parameters(r *http.Request, known ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.add(fault{Message: "the query cannot be read: " + err.Error()})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(q.faults) > maxFaults {
			break // before the texts of others are made
		}
		switch {
		case !slices.Contains(known, name):
			want := "no parameters"
			if known != nil {
				want = "one of " + strings.Join(known, ", ")
			}
			q.add(fault{
				Field: shortened(name), Want: want,
				Message: fmt.Sprintf("unknown parameter %s; want %s", quoted(name), want),
			})
		case len(values[name]) > 1:
			q.fault(name, fmt.Sprintf("%d values", len(values[name])), "one")
		}
	}
	return q
}

// add notes a fault; of those beyond the bound, only that there are any.
func (q *query) add(f fault) {
	switch {
	case len(q.faults) < maxFaults:
		q.faults = append(q.faults, f)
	case len(q.faults) == maxFaults:
		q.faults = append(q.faults, andMore)
	}
}

func (q *query) fault(field, value, want string) {
	q.add(fault{
		Field: field, Value: value, Want: want,
		Message: fmt.Sprintf("%s is %s; want %s", field, value, want),
	})
}

func (q *query) required(name, want string) string {
	if !q.values.Has(name) {
		q.add(fault{Field: name, Want: want, Message: name + " is missing; want " + want})
	}
	return q.values.Get(name)
}

// oneOf returns a parameter that is one of these, or, if it is not there, standard.
func (q *query) oneOf(name, standard string, choices ...string) string {
	if !q.values.Has(name) {
		return standard
	}
	v := q.values.Get(name)
	if !slices.Contains(choices, v) {
		q.fault(name, quoted(v), "one of "+strings.Join(choices, ", "))
	}
	return v
}

// count returns a parameter that is a number, 1 to most, or, if it is not there, most.
func (q *query) count(name string, most int) int {
	if !q.values.Has(name) {
		return most
	}
	v := q.values.Get(name)
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		q.fault(name, quoted(v), fmt.Sprintf("1 to %d", most))
	}
	return n
}

func (q *query) failed(w http.ResponseWriter) bool {
	if q.faults == nil {
		return false
	}
	fail(w, faulty(http.StatusBadRequest, q.faults))
	return true
}

func faulty(status int, faults []fault) problem {
	messages := make([]string, len(faults))
	for i, f := range faults {
		messages[i] = f.Message
	}
	return problem{Status: status, Detail: strings.Join(messages, "; "), Faults: faults}
}

const maxShown = 64 // bytes of what a client sent that it is shown again

func quoted(s string) string { return strconv.Quote(shortened(s)) }

func shortened(s string) string { return clip(s, maxShown) }

// clip returns the beginning of a text, of so many bytes at most, if it is longer.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
