package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
	"github.com/leapgate-go/leapgate/whatif/page"
)

// options says how the log is read: so that the rules find their resources in it.
func (r *replay) options(before, after *whatif.Config, stdin io.Reader) accesslog.Options {
	o := accesslog.Options{Format: r.format, Stdin: stdin}
	if r.key != clientKey {
		o.Key = r.key
	}
	for _, pattern := range r.routes {
		o.Routes = append(o.Routes, accesslog.Route{Pattern: pattern})
	}
	for _, text := range r.rule {
		prefix := text[:strings.LastIndexByte(text, '=')]
		o.Routes = append(o.Routes, accesslog.Route{Pattern: prefix, Prefix: true, Resource: prefix})
	}
	for _, c := range []*whatif.Config{before, after} {
		if c == nil {
			continue
		}
		for _, name := range exactResources(c.Rules) {
			if route := (accesslog.Route{Pattern: name, Resource: name}); !isPrefixOf(r.rule, name) && route.Valid() {
				o.Routes = append(o.Routes, route)
			}
		}
	}
	return o
}

// isPrefixOf reports whether a resource is that of a -rule.
func isPrefixOf(rules []string, resource string) bool {
	for _, text := range rules {
		if text[:strings.LastIndexByte(text, '=')] == resource {
			return true
		}
	}
	return false
}

// exactResources returns what resources rules name.
func exactResources(rules leapgate.Rules) (names []string) {
	list := (*kinds.Rules)(&rules)
	for _, k := range kinds.All {
		for i := range k.Len(list) {
			if h := k.Head(list, i); *h.Match == rule.Exact {
				names = append(names, *h.Resource)
			}
		}
	}
	return names
}

// join returns the rules of both.
func join(rules, more leapgate.Rules) leapgate.Rules {
	for _, k := range kinds.All {
		k.Append((*kinds.Rules)(&rules), (*kinds.Rules)(&more))
	}
	return rules
}

// output is a way to write what was found, and to where.
type output struct {
	write func(*page.Document, io.Writer) error
	file  *outFile // nil: standard output
}

// outputs opens all that is written, before there is anything to lose.
func (r *replay) outputs() (all []output, err error) {
	if r.json != "-" && r.html != "-" {
		all = append(all, output{write: (*page.Document).WriteText})
	}
	for _, to := range []struct {
		name  string
		write func(*page.Document, io.Writer) error
	}{{r.json, (*page.Document).WriteJSON}, {r.html, (*page.Document).WriteHTML}} {
		if to.name == "" {
			continue
		}
		out := output{write: to.write}
		if to.name != "-" {
			if out.file, err = createFile(to.name); err != nil {
				dropAll(all)
				return nil, err
			}
		}
		all = append(all, out)
	}
	return all, nil
}

func dropAll(all []output) {
	for _, out := range all {
		if out.file != nil {
			out.file.drop()
		}
	}
}

// writeTo writes what was found.
func (o *output) writeTo(d *page.Document, stdout io.Writer) error {
	buffered := func(w io.Writer) error {
		b := bufio.NewWriter(w)
		if err := o.write(d, b); err != nil {
			return err
		}
		return b.Flush()
	}
	if o.file == nil {
		return buffered(stdout)
	}
	return o.file.finish(buffered)
}

// judge reports whether more requests are blocked than -max-blocked allows, as an exit code.
func (r *replay) judge(d *page.Document, stderr io.Writer) int {
	if r.maxBlocked == nil {
		return exitOK
	}
	report := d.Report
	if d.Comparison != nil {
		report = d.Comparison.After
	}
	for i := range report.Rules {
		if u := &report.Rules[i]; u.Requests == 0 && u.Mode != rule.Off {
			fmt.Fprintf(stderr, "leapgate replay: warning: rule %s binds no resource of the log, so -max-blocked says nothing about it\n", escape.Text(u.ID))
		}
	}
	if report.Share <= *r.maxBlocked {
		return exitOK
	}
	fmt.Fprintf(stderr, "leapgate replay: %d of %d requests are blocked, which is %.4g%%; want at most %.4g%%\n",
		report.Blocked, report.Traffic.Requests, 100*report.Share, 100**r.maxBlocked)
	return exitFaults
}
