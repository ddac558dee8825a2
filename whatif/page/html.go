package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
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
	//go:embed chart.js
	chartJS string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text": escape.Short, "count": count, "keys": keys, "percent": percent, "at": at, "spread": spread,
	"style": func() template.CSS { return template.CSS(styleCSS) },
	"chart": func() template.JS { return template.JS(chartJS) },
	"curve": newChart, "shadow": func(m rule.Mode) bool { return m == rule.Shadow },
	"detailed": detailed, "part": func(n, of int64) string { return percent(float64(n) / float64(max(1, of))) },
}).Parse(pageHTML))

// WriteHTML writes it as a page: one file, which loads nothing and is light or dark as its
// reader likes.
func (d *Document) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, d) }

// Traffic is that of all that was tried.
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

// Reports are those with what they are called, if there is more than one.
func (d *Document) Reports() (all []NamedReport) {
	if c := d.Comparison; c != nil {
		return []NamedReport{{"The rules after", c.After}, {"The rules before", c.Before}}
	}
	if d.Report != nil {
		all = append(all, NamedReport{"", d.Report})
	}
	return all
}

// Notes are what a reader must know to judge it, each once.
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

// NamedReport is a report and what it is called.
type NamedReport struct {
	Name string
	*whatif.Report
}

// maxDetailed is for how many rules there is more than a line, so that a page stays small.
const maxDetailed = 40

// detailed reports which rules there is more to tell of: of those that blocked anything.
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

// count writes a number with commas between thousands.
func count(v any) string {
	text := fmt.Sprint(v)
	digits := strings.TrimPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if text[0] == '-' {
		return "−" + digits
	}
	return digits
}

func keys(n int) string {
	if n == 1 {
		return "1 key"
	}
	return count(n) + " keys"
}

// percent writes a share: "1.25 %".
func percent(share float64) string {
	p := math.Abs(100 * share)
	text := "< 0.01"
	switch {
	case p == 0 || p >= 0.01 && p < 10:
		text = strconv.FormatFloat(math.Round(p*100)/100, 'f', -1, 64)
	case p >= 10:
		text = strconv.FormatFloat(p, 'f', 1, 64)
	}
	if share < 0 {
		text = "−" + text
	}
	return text + " %"
}

func at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateTime)
}

func spread(r whatif.Range) string {
	if r.Least == r.Most {
		return count(r.Least)
	}
	return count(r.Least) + " to " + count(r.Most)
}
