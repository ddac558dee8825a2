package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/dashboard/internal/history"
)

// column is something that the figures of a step tell.
type column struct {
	name  string
	value func(figures []int64) any
}

func count(i int) func([]int64) any { return func(f []int64) any { return f[i] } }

func duration(i int) func([]int64) any {
	return func(f []int64) any { return millis(history.UnpackTime(f[i])) }
}

func amount(i int) func([]int64) any {
	return func(f []int64) any { return number(history.UnpackNumber(f[i])) }
}

func effective(f []int64) any {
	if f[pastEffective] == 0 {
		return number(history.UnpackNumber(f[pastThreshold]))
	}
	return number(history.UnpackLevel(f[pastEffective] - 1))
}

var (
	pastColumns = []column{
		{"pass", count(pastPass)},
		{"block", count(pastBlock)},
		{"exception", count(pastException)},
		{"wouldBlock", count(pastWouldBlock)},
		{"maxConcurrency", count(pastConcurrency)},
		{"waiting", count(pastWaiting)},
		{"waitP95", duration(pastWaitP95)},
		{"p50", duration(pastP50)},
		{"p95", duration(pastP95)},
		{"p99", duration(pastP99)},
	}
	pastRuleColumns = []column{
		{"blocked", count(pastBlocked)},
		{"wouldBlock", count(pastRuleWouldBlock)},
		{"candidateWouldBlock", count(pastCandidateWouldBlock)},
		{"withoutArgument", count(pastMissing)},
		{"changes", count(pastChanges)},
		{"state", count(pastState)},
		{"threshold", amount(pastThreshold)},
		{"effective", effective},
		{"candidate", amount(pastCandidate)},
	}
	demandColumns = []column{{"demand", count(0)}}
)

// rowsView is steps of the history: when each began, and its figures in the order of Columns.
type rowsView struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

func rowsOf(row *history.Row, now, length, steps int64, columns []column) rowsView {
	v := rowsView{Columns: []string{"at"}, Rows: [][]any{}}
	for _, c := range columns {
		v.Columns = append(v.Columns, c.name)
	}
	for step, figures := range row.From((now-1)/length - steps) {
		values := []any{step * length}
		for _, c := range columns {
			values = append(values, c.value(figures))
		}
		v.Rows = append(v.Rows, values)
	}
	return v
}

type historyView struct {
	Name      string            `json:"name"`
	Step      int64             `json:"step"` // seconds
	Forgotten int64             `json:"forgotten"`
	Resource  rowsView          `json:"resource"`
	Rules     []ruleHistoryView `json:"rules,omitempty"`
}

type ruleHistoryView struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Raw  string `json:"raw,omitempty"`

	States []string `json:"states,omitempty"`
	rowsView
}

// spans are the parts of the history that can be asked for.
var spans = []string{"hour", "minute", "demand"}

// view returns the part of the history of a resource, and reports whether there is any.
func (p *past) view(name, span string, now int64) (historyView, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resources[name]
	if r == nil || r.rowsPast == nil {
		return historyView{}, false
	}
	v := historyView{Name: name, Step: 1, Forgotten: p.forgotten}
	switch span {
	case "minute":
		v.Resource = rowsOf(r.minute, now, 1, minuteSeconds, pastColumns)
	case "demand":
		v.Resource = rowsOf(r.demand, now, 1, hourSeconds, demandColumns)
	default:
		v.Step = stepSeconds
		v.Resource = rowsOf(r.hour, now, stepSeconds, hourSteps, pastColumns)
		for key, rule := range r.rules {
			v.Rules = append(v.Rules, ruleHistoryView{
				Kind: key.kind, ID: key.id, Raw: rawOf(key.id), States: rule.states,
				rowsView: rowsOf(rule.hour, now, stepSeconds, hourSteps, pastRuleColumns),
			})
		}
		slices.SortFunc(v.Rules, func(a, b ruleHistoryView) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
		})
	}
	return v, true
}

var noHistory = problem{Status: http.StatusNotFound, Detail: "no history is kept: the program has not set KeepHistory"}

func noHistoryOf(resource string) problem {
	return problem{Status: http.StatusNotFound, Detail: "there is no history of a resource " + quoted(resource)}
}

func (d *Dashboard) serveHistory(w http.ResponseWriter, r *http.Request) {
	q := parameters(r, "name", "span")
	name := q.required("name", "the name of a resource")
	span := q.oneOf("span", "hour", spans...)
	if q.failed(w) {
		return
	}
	if d.past == nil {
		fail(w, noHistory)
		return
	}
	v, ok := d.past.view(name, span, d.timeOf(nil).Unix())
	if !ok {
		fail(w, noHistoryOf(name))
		return
	}
	answer(w, http.StatusOK, v)
}
