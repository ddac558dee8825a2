package whatif

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rule"
)

// WriteText writes the report for terminals. Text from the log is escaped. The error is the first error of w.
func (r *Report) WriteText(w io.Writer) error {
	p := newPrinter(w)
	p.report(r)
	return p.flush()
}

// WriteText writes the comparison for terminals. Text from the log is escaped. The error is the first error of w.
func (c *Comparison) WriteText(w io.Writer) error {
	p := newPrinter(w)
	p.traffic(&c.After.Traffic)
	p.line("\nbefore:")
	p.rules(c.Before)
	p.ruleNotes(c.Before)
	p.line("\nafter:")
	p.rules(c.After)
	p.ruleNotes(c.After)
	p.line("")
	p.line("%s blocked before only, %d after only, %d both; %s better off, %d worse off",
		many(c.OnlyBefore, "request"), c.OnlyAfter, c.Both, many(int64(c.Better), "key"), c.Worse)
	p.changes("better off", c.MostBetter)
	p.changes("worse off", c.MostWorse)
	if len(c.Resources) > 0 {
		p.table("\nresource\tbefore only\tafter only\n")
		for _, r := range c.Resources {
			p.table("%s\t%d\t%d\n", escape.Text(r.Resource), r.OnlyBefore, r.OnlyAfter)
		}
		p.end()
	}
	p.notes(c.Notes())
	return p.flush()
}

// WriteText writes the suggestion for terminals. Text from the log is escaped. The error is the first error of w.
func (s *Suggestion) WriteText(w io.Writer) error {
	p := newPrinter(w)
	p.traffic(&s.Train)
	for i := range s.Limits {
		l := &s.Limits[i]
		p.curve(&l.Train)
		if l.Test != nil {
			p.line("  tested on %s: it would have blocked %s, of %s", many(s.Test.Requests-s.Test.Keyless, "other request"), Percent(l.Test.Share), many(int64(l.Test.Keys), "key"))
		}
	}
	p.notes(s.Notes)
	return p.flush()
}

// printer writes lines and tables. flush returns the first error.
type printer struct {
	out *bufio.Writer
	tab *tabwriter.Writer
}

func newPrinter(w io.Writer) *printer {
	out := bufio.NewWriter(w)
	return &printer{out, tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

func (p *printer) line(format string, args ...any)  { fmt.Fprintf(p.out, format+"\n", args...) }
func (p *printer) table(format string, args ...any) { fmt.Fprintf(p.tab, format, args...) }
func (p *printer) end()                             { _ = p.tab.Flush() }
func (p *printer) flush() error                     { return p.out.Flush() }

func (p *printer) report(r *Report) {
	p.traffic(&r.Traffic)
	p.line("")
	p.rules(r)
	for i := range r.Rules {
		p.rule(&r.Rules[i])
	}
	for i := range r.Curves {
		p.curve(&r.Curves[i])
	}
	p.notes(r.Notes)
}

func (p *printer) traffic(t *Traffic) {
	p.line("%s of %s for %s", many(t.Requests, "request"), many(int64(t.Keys), "key"), many(int64(t.Resources), "resource"))
	if t.Requests == 0 {
		return
	}
	p.line("%s to %s, in UTC; busiest minute %s with %d", clockTime(t.First), clockTime(t.Last), clockTime(t.BusiestMinute.At), t.BusiestMinute.Requests)
	if len(t.Top) > 0 {
		p.line("busiest key %s with %s of them", escape.Quoted(t.Top[0].Key), Percent(t.TopShare))
	}
	if len(t.TopResources) > 1 {
		p.table("  resource\trequests\n")
		for _, r := range t.TopResources {
			p.table("  %s\t%d\n", escape.Text(r.Resource), r.Requests)
		}
		p.end()
	}
}

func (p *printer) rules(r *Report) {
	p.line("blocked %d of %d, %s", r.Blocked, r.Traffic.Requests, Percent(r.Share))
	if r.Waited > 0 {
		p.line("%d waited, at most %v", r.Waited, r.LongestWait)
	}
	if len(r.Rules) == 0 {
		return
	}
	p.table("\nrule\tkind\trequests\tblocked\tshare\tkeys\tfirst\tlast\n")
	for i := range r.Rules {
		u := &r.Rules[i]
		name := escape.Text(u.ID)
		if u.Mode != rule.Enforce {
			name += " (" + u.Mode.String() + ")"
		}
		p.table("%s\t%s\t%d\t%d\t%s\t%d\t%s\t%s\n", name, u.Kind, u.Requests, u.Blocked, Percent(u.Share), u.Keys, clockTime(u.First), clockTime(u.Last))
	}
	p.end()
}

// ruleNotes writes the notes of rules that have no section.
func (p *printer) ruleNotes(r *Report) {
	for i := range r.Rules {
		for _, note := range r.Rules[i].Notes {
			p.line("  %s: %s", escape.Text(r.Rules[i].ID), note)
		}
	}
}

func (p *printer) rule(r *RuleReport) {
	p.line("\n%s rule %s: %s", r.Kind, escape.Quoted(r.ID), escape.Text(r.Text))
	if w := r.Windows; w.N > 0 {
		of := "demand"
		if r.PerKey {
			of = "demand of a key"
		}
		p.line("  %s in windows of %v: p50 %d, p99 %d, p99.9 %d, max %d", of, r.Interval, w.P50, w.P99, w.P999, w.Max)
	}
	if r.Blocked > 0 {
		p.line("  worst minute %s: %d blocked", clockTime(r.WorstMinute.At), r.WorstMinute.Requests)
	}
	if len(r.Top) > 0 {
		p.table("  key\trequests\tblocked\n")
		for _, k := range r.Top {
			p.table("  %s\t%d\t%d\n", escape.Text(k.Key), k.Requests, k.Blocked)
		}
		p.end()
	}
	for _, note := range r.Notes {
		p.line("  %s", note)
	}
}

func (p *printer) curve(c *Curve) {
	if c.Keys == 0 {
		p.line("\nno limit for each key in %v: no request has a key", c.Window)
		return
	}
	p.line("\na limit for each key in %v: %s, the busiest with %d", c.Window, many(int64(c.Keys), "key"), c.Peaks.Max)
	p.table("  limit\tblocked\tshare\tkeys\n")
	for _, at := range c.Points {
		p.table("  %d\t%d\t%s\t%d\n", at.Limit, at.Blocked, Percent(at.Share), at.Keys)
	}
	p.end()
	p.line("  The table counts in windows of the clock. A limiter slides, so it usually blocks somewhat more.")
	p.line("  suggested: %d, which would have blocked %s, of %s", c.Suggested.Limit, Percent(c.Suggested.Share), many(int64(c.Suggested.Keys), "key"))
	if c.Warning != "" {
		p.line("  %s", c.Warning)
	}
}

func (p *printer) changes(how string, all []KeyChange) {
	if len(all) == 0 {
		return
	}
	p.table("\n%s\trequests\tblocked before\tafter\n", how)
	for _, k := range all {
		p.table("%s\t%d\t%d\t%d\n", escape.Text(k.Key), k.Requests, k.Before, k.After)
	}
	p.end()
}

func (p *printer) notes(all []string) {
	if len(all) > 0 {
		p.line("")
	}
	for _, note := range all {
		p.line("note: %s", note)
	}
}

func clockTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.DateTime)
}

// many returns a number and a noun: "1 key", "2 keys".
func many(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Percent formats a share: "1.25 %", "35.3 %", "< 0.01 %".
func Percent(share float64) string {
	p := 100 * share
	switch {
	case p > 0 && p < 0.01:
		return "< 0.01 %"
	case p >= 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(math.Round(p*100)/100, 'f', -1, 64) + " %"
}
