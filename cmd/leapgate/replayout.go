package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
	"github.com/leapgate-go/leapgate/whatif/page"
)

// options says how the log is read: so that the rules find their resources in it.
func (r *replay) options(before, after *whatif.Config, stdin io.Reader) accesslog.Options {
	o := accesslog.Options{Format: r.format, SpoolMax: r.spool, Stdin: stdin}
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

// write writes what was found to wherever it is wanted.
func (r *replay) write(d *page.Document, stdout io.Writer) error {
	if r.json != "-" {
		out := bufio.NewWriter(stdout)
		if err := d.WriteText(out); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	for _, to := range []struct {
		name  string
		write func(io.Writer) error
	}{{r.json, d.WriteJSON}, {r.html, d.WriteHTML}} {
		switch to.name {
		case "":
		case "-":
			if err := to.write(stdout); err != nil {
				return err
			}
		default:
			if err := writeFile(to.name, to.write); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if failed := f.Close(); err == nil {
			err = failed
		}
	}()
	return write(f)
}

// exceeded says that more is blocked than may be; it is empty if that is not so.
func (r *replay) exceeded(d *page.Document) string {
	report := d.Report
	if d.Comparison != nil {
		report = d.Comparison.After
	}
	if r.maxBlocked == nil || report.Share <= *r.maxBlocked {
		return ""
	}
	return fmt.Sprintf("%d of %d requests are blocked, which is %.4g%%; want at most %.4g%%",
		report.Blocked, report.Traffic.Requests, 100*report.Share, 100**r.maxBlocked)
}
