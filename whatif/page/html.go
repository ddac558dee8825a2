package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/whatif"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed style.css
	styleCSS string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text": escape.Short, "count": count, "keys": keys, "percent": whatif.Percent, "at": at,
	"style":    func() template.CSS { return template.CSS(styleCSS) },
	"shadow":   func(m rule.Mode) bool { return m == rule.Shadow },
	"detailed": detailed, "part": func(n, of int64) string { return whatif.Percent(float64(n) / float64(max(1, of))) },
}).Parse(pageHTML))

// WriteHTML writes the document as a page: one file without scripts that loads nothing.
func (d *Document) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, d) }

// Traffic returns the traffic of the log.
func (d *Document) Traffic() *whatif.Traffic {
	switch {
	case d.Comparison != nil:
		return &d.Comparison.After.Traffic
	case d.Suggestion != nil:
		return &d.Suggestion.Train
	default:
		return &d.Report.Traffic
	}
}

// Reports returns the reports, with names if there is more than one.
func (d *Document) Reports() (all []NamedReport) {
	if c := d.Comparison; c != nil {
		return []NamedReport{{"The rules after", c.After}, {"The rules before", c.Before}}
	}
	if d.Report != nil {
		all = append(all, NamedReport{"", d.Report})
	}
	return all
}

// Notes returns the notes of all reports, each once.
func (d *Document) Notes() []string {
	switch {
	case d.Comparison != nil:
		return d.Comparison.Notes()
	case d.Suggestion != nil:
		return d.Suggestion.Notes
	default:
		return d.Report.Notes
	}
}

// NamedReport is a report with a name.
type NamedReport struct {
	Name string
	*whatif.Report
}

// maxDetailed limits the number of rules with a section of their own, so that a page stays small.
const maxDetailed = 40

// detailed reports which rules get a section: the first that blocked anything.
func detailed(rules []whatif.RuleReport) []bool {
	some, n := make([]bool, len(rules)), 0
	for i := range rules {
		if rules[i].Blocked > 0 && n < maxDetailed {
			some[i] = true
			n++
		}
	}
	return some
}

// count formats a number with commas between thousands.
func count(v any) string {
	digits := fmt.Sprint(v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func keys(n int) string {
	if n == 1 {
		return "1 key"
	}
	return count(n) + " keys"
}

func at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateTime)
}
