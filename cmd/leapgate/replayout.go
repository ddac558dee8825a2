package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
	"github.com/leapgate-go/leapgate/whatif/page"
)

// options returns how the log is read, so that its requests have the resources of the rules.
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

// isPrefixOf reports whether a resource is the prefix of a -rule.
func isPrefixOf(rules []string, resource string) bool {
	for _, text := range rules {
		if text[:strings.LastIndexByte(text, '=')] == resource {
			return true
		}
	}
	return false
}

// exactResources returns the resources that rules name.
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

// checkOutputs returns an error if an output would overwrite an input or the other output.
func (r *replay) checkOutputs(args []string) error {
	var errs []error
	for _, out := range [...]struct{ flag, name string }{{"-html", r.html}, {"-json", r.json}} {
		info, err := os.Stat(out.name)
		if err != nil {
			continue
		}
		for _, name := range append([]string{r.rules, r.against}, args...) {
			if other, err := os.Stat(name); err == nil && other.Mode().IsRegular() && os.SameFile(info, other) {
				errs = append(errs, fmt.Errorf("%s is %s, which is read as %s; want another file", out.flag, out.name, name))
			}
		}
	}
	if r.html != "" && r.html == r.json {
		errs = append(errs, fmt.Errorf("-html and -json are both %s; want one for each", r.html))
	}
	return errors.Join(errs...)
}

// write writes the document to the files of the flags, and then to standard output.
func (r *replay) write(d *page.Document, stdout io.Writer) error {
	var toStdout bytes.Buffer
	if r.json != "-" && r.html != "-" {
		if err := d.WriteText(&toStdout); err != nil {
			return err
		}
	}
	for _, out := range [...]struct {
		name  string
		write func(io.Writer) error
	}{{r.json, d.WriteJSON}, {r.html, d.WriteHTML}} {
		var b bytes.Buffer
		switch out.name {
		case "":
		case "-":
			if err := out.write(&toStdout); err != nil {
				return err
			}
		default:
			if err := out.write(&b); err != nil {
				return err
			}
			if err := os.WriteFile(out.name, b.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	_, err := toStdout.WriteTo(stdout)
	return err
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
