//go:build e2e

package browser

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// kind is a kind of rules as the API describes it, as far as the tests go.
type kind struct {
	Name   string
	Fields []struct{ Name, Type, Required string }
}

// required is the field that a rule of the kind must have, and values for it: good ones, and
// one that cannot be read.
func (k *kind) required(t *testing.T) (name, good, better, bad string) {
	t.Helper()
	for _, f := range k.Fields {
		if f.Required == "" {
			continue
		}
		switch f.Type {
		case "number", "whole":
			return f.Name, "7", "9", "seven"
		case "duration":
			return f.Name, "7s", "9s", "soon"
		}
	}
	switch k.Name {
	case "breaker": // one of several must be there
		return "consecutive", "7", "9", "seven"
	case "system": // one of several likewise
		return "maxInFlight", "7", "9", "seven"
	case "param": // what must be there is a text, and no text is bad
		return "threshold", "7", "9", "seven"
	}
	t.Fatalf("no field of %s rules must be there", k.Name)
	return
}

// TestForm_OfEachKind makes, changes and removes a rule of each kind by hand, and is told at its
// field what is wrong.
func TestForm_OfEachKind(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody}).url+"#/rules")
	p.allowed(`status of 422`)
	var kinds []kind
	require.NoError(t, json.Unmarshal([]byte(ask[string](p, `fetch("api/v1/kinds").then((r) => r.json()).then((v) => JSON.stringify(v.kinds))`)), &kinds))
	require.GreaterOrEqual(t, len(kinds), 2)
	p.is(len(kinds), `document.querySelectorAll("button.add").length`)
	closed := `!document.querySelector("dialog")`
	kept := func(field string) any {
		return ask[any](p, `fetch("api/v1/rules").then((r) => r.json()).then((v) => v.rules[0]?.rule[`+quote(field)+`] ?? null)`)
	}
	for i, k := range kinds {
		field, good, better, bad := k.required(t)
		p.click("button.add:nth-of-type(" + quote(i+1) + ")")
		p.until("the form", `/^Add an? `+k.Name+` rule$/.test(document.querySelector("dialog h2")?.textContent)`)
		for _, f := range k.Fields {
			require.True(t, ask[bool](p, `Boolean(document.querySelector("#rule-`+f.Name+`"))`), "%s of %s rules", f.Name, k.Name)
		}
		p.fill("#rule-resource", "GET /"+k.Name)
		for _, f := range k.Fields {
			if f.Required != "" && f.Type == "text" {
				p.fill("#rule-"+f.Name, "x")
			}
		}
		p.fill("#rule-"+field, bad)
		p.click("dialog button[type=submit]")
		p.until("the fault at its field", `document.querySelector("#rule-`+field+`").getAttribute("aria-invalid") === "true"`)
		p.until("what is wrong", `document.querySelector("#rule-`+field+`-fault").textContent.includes(`+quote(field+` is "`+bad+`"; want `)+`)`)
		require.Equal(t, "rule-"+field, ask[string](p, "document.activeElement.id"))
		p.is(1, `document.querySelectorAll("dialog [aria-invalid=true]").length`)
		require.Zero(t, gate.Rules().Len())
		p.shoot("fault-" + k.Name)

		p.fill("#rule-"+field, good)
		p.click("dialog button[type=submit]")
		p.until("added", closed+` && document.querySelectorAll(".rule").length === 1`)
		require.Equal(t, 1, gate.Rules().Len())
		before := kept(field)
		p.until("what it does", `document.querySelector(".rule .note").textContent.endsWith(" · on GET /`+k.Name+`")`)

		p.click(".rule .edit")
		p.until("the form", `document.querySelector("dialog h2")?.textContent === "Edit `+k.Name+` rule GET /`+k.Name+`/1"`)
		require.False(t, ask[bool](p, `Boolean(document.querySelector("#rule-id"))`), "a rule keeps its ID")
		p.fill("#rule-"+field, better)
		p.choose("#rule-mode", "shadow")
		p.click("dialog button[type=submit]")
		p.until("changed", closed+` && document.querySelector(".rule .badge.shadow")`)
		require.NotEqual(t, before, kept(field))
		require.Equal(t, "shadow", kept("mode"))

		p.click(".rule .remove")
		p.until("the question", `document.querySelector("dialog h2")?.textContent === "Remove GET /`+k.Name+`/1?"`)
		p.click("dialog button[type=submit]")
		p.until("gone", closed+` && document.querySelectorAll(".rule").length === 0`)
		require.Zero(t, gate.Rules().Len())
	}
}

// laterKind is a kind of rules that there is not, with a field of every type.
const laterKind = `{"name": "every-nth", "status": 429, "fields": [
	{"name": "id", "label": "ID", "hint": "Any.", "type": "text"},
	{"name": "resource", "label": "Resource", "hint": "A name.", "type": "text"},
	{"name": "nth", "label": "Every", "hint": "How many pass between two refusals.", "type": "whole", "required": "how many pass"},
	{"name": "share", "label": "Share", "hint": "A part of one.", "type": "number", "default": 0.5, "seldom": true},
	{"name": "after", "label": "After", "hint": "Such as 5s.", "type": "duration"},
	{"name": "memory", "label": "Memory", "hint": "Such as 5MiB.", "type": "bytes", "only": {"field": "counts", "value": "bytes"}},
	{"name": "counts", "label": "Counts", "hint": "What is counted.", "type": "enum", "options": ["calls", "bytes"]},
	{"name": "loud", "label": "Loud", "hint": "Says so.", "type": "flag"}]}`

// TestForm_OfAKindThatIsRegisteredLater: what the server says of a kind is all that the page
// needs to make, show and change its rules.
func TestForm_OfAKindThatIsRegisteredLater(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	page := dashboard.Handler(gate, dashboard.Config{Authorize: everybody, Logger: quiet()})
	var mu sync.Mutex
	var sent []map[string]any
	const rule = `{"kind": "every-nth", "id": "x", "version": "1", "editable": true, "bounds": "pass", "summary": "refuses every 3rd call",
		"rule": {"id": "x", "resource": "a", "nth": 3, "share": 0.5}}`
	mux := http.NewServeMux()
	mux.Handle("/leapgate/", page)
	mux.HandleFunc("GET /leapgate/api/v1/kinds", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kinds": [`+laterKind+`]}`) })
	mux.HandleFunc("GET /leapgate/api/v1/rules", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version": "1", "rules": [`+rule+`]}`)
	})
	receive := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		body["query"] = r.URL.RawQuery
		sent = append(sent, body)
		if body["memory"] == "much" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"status": 422, "detail": "no", "faults": [{"field": "memory", "message": "memory is \"much\"; want a number"}]}`)
			return
		}
		_, _ = io.WriteString(w, rule)
	}
	mux.HandleFunc("POST /leapgate/api/v1/rules", receive)
	mux.HandleFunc("PUT /leapgate/api/v1/rule", receive)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = page.Close()
		server.Close()
	})
	last := func(n int) map[string]any {
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, sent, n)
		return sent[n-1]
	}

	p := open(t, server.URL+"/leapgate/#/rules")
	p.allowed(`status of 422`)
	p.until("its rule", `document.querySelector(".rule .note")?.textContent === "Refuses every 3rd call · on a"`)
	p.is("3", `document.querySelector(".rule .threshold dd").textContent`) // what it must have
	p.click("button.add")
	p.until("the form", `document.querySelector("dialog h2")?.textContent === "Add an every-nth rule"`)
	require.Equal(t, "ID,Resource,Every,After,Memory,Counts,Loud,Share", ask[string](p, `String([...document.querySelectorAll("dialog .fields label")].map((l) => l.textContent).filter((l) => l !== "Token"))`))
	require.Equal(t, "numeric,decimal,text,checkbox,SELECT", ask[string](p, `String([document.querySelector("#rule-nth").inputMode, document.querySelector("#rule-share").inputMode,
		document.querySelector("#rule-after").type, document.querySelector("#rule-loud").type, document.querySelector("#rule-counts").tagName])`))
	require.False(t, ask[bool](p, `document.querySelector("#rule-memory").checkVisibility()`), "it is for bytes only")
	p.fill("#rule-resource", "b")
	p.fill("#rule-nth", "4")
	p.fill("#rule-after", "5s")
	p.choose("#rule-counts", "bytes")
	p.until("what goes with it", `document.querySelector("#rule-memory").checkVisibility()`)
	p.fill("#rule-memory", "much")
	p.do(chromedp.Click(chromedp.CSS("#rule-loud")))
	p.click("dialog button[type=submit]")
	p.until("the fault", `document.querySelector("#rule-memory-fault").textContent === "memory is \"much\"; want a number"`)
	p.shoot("later-kind")
	p.size(390, 844, true)
	p.prefers("dark", "reduce")
	p.shoot("later-kind-phone-dark")
	require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), int64(390), "the form is wider than the window")
	p.fill("#rule-memory", "5")
	p.click("dialog button[type=submit]")
	p.until("added", `!document.querySelector("dialog")`)
	require.Equal(t, map[string]any{
		"query": "kind=every-nth", "resource": "b", "nth": 4.0, "after": "5s", "counts": "bytes", "memory": 5.0, "loud": true,
	}, last(2))

	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	require.False(t, ask[bool](p, `document.querySelector("dialog details").open`), "what few need is as it is for everybody")
	p.fill("#rule-nth", "5")
	p.click("dialog button[type=submit]")
	p.until("saved", `!document.querySelector("dialog")`)
	require.Equal(t, map[string]any{"query": "kind=every-nth&id=x", "resource": "a", "nth": 5.0, "share": 0.5}, last(3))
	require.True(t, strings.HasPrefix(ask[string](p, "document.title"), "Rules"))
}
