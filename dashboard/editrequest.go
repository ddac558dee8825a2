package dashboard

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// maxReasonLength is how many characters the reason of an edit has at most.
const maxReasonLength = 500

// maxBody is the size of the largest rule that is read. The longest names in \u escapes fit.
const maxBody = 64 << 10

// authorized returns the name of the user who wants to change a rule, or answers that this is
// not allowed.
func (d *Dashboard) authorized(w http.ResponseWriter, r *http.Request) (who string, ok bool) {
	if d.cfg.Authorize == nil {
		fail(w, problem{Status: http.StatusForbidden, Detail: "rules cannot be changed here: the program has not turned it on"})
		return "", false
	}
	who, err := d.attempts.ask(r)
	if err == nil {
		return who, true
	}
	var tooMany *errTooMany
	if errors.As(err, &tooMany) {
		w.Header().Set("Retry-After", strconv.Itoa(tooMany.seconds()))
		fail(w, problem{Status: http.StatusTooManyRequests, Detail: err.Error()})
		return "", false
	}
	p := problem{Status: http.StatusForbidden, Detail: "you may not change rules: " + escape.Text(err.Error())}
	var challenge Challenge
	if errors.As(err, &challenge) {
		w.Header().Set("WWW-Authenticate", string(challenge))
		p.Status = http.StatusUnauthorized
	}
	fail(w, p)
	return "", false
}

func body(w http.ResponseWriter, r *http.Request) (data []byte, ok bool) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		fail(w, problem{Status: http.StatusUnsupportedMediaType, Detail: "want Content-Type: application/json"})
		return nil, false
	}
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
			fail(w, problem{Status: http.StatusUnsupportedMediaType, Detail: "want no Content-Encoding, or identity"})
			return nil, false
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		fail(w, problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("want at most %d bytes", maxBody)})
		return nil, false
	case err != nil:
		fail(w, problem{Status: http.StatusBadRequest, Detail: "the body could not be read"})
		return nil, false
	}
	return data, true
}

// valueFault is a field that holds a wrong value, or none.
func valueFault(field, value, want string) fault {
	f := fault{Field: field, Value: value, Want: want, Message: fmt.Sprintf("%s is %s; want %s", field, value, want)}
	if value == "" {
		f.Message = fmt.Sprintf("%s is missing; want %s", field, want)
	}
	return f
}

func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request, who string, e *edit) {
	k := e.kind
	if e.action != remove {
		data, ok := body(w, r)
		if !ok {
			return
		}
		rule, faults := decodeRule(k, data, d.hidden(e))
		if faults == nil {
			switch id := *k.Head(rule, 0).ID; {
			case e.action == add:
				e.id = id
			case id != "" && id != e.id:
				faults = []fault{valueFault("id", quoted(id), quoted(e.id)+" or nothing: a rule keeps its ID")}
			}
		}
		if faults != nil {
			fail(w, faulty(http.StatusUnprocessableEntity, faults))
			return
		}
		e.rule = kinds.Completed(rule)
	}
	if err := d.perform(r.Context(), e, who); err != nil {
		d.failEdit(w, ruleKey{k.Name(), e.id}, err)
		return
	}
	if e.action == remove {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status := http.StatusOK
	if e.action == add {
		status = http.StatusCreated
	}
	rule, ok := d.rule(ruleKey{k.Name(), e.id}, seesRules)
	if !ok { // somebody has removed it since
		rule = d.views(k, e.after, seesRules)[0]
	}
	answerRule(w, status, rule)
}

// hidden returns the private texts of the rule that an edit changes, by what is shown in their place to those who may
// not see them. Somebody who signs in with the edit itself sends that back.
func (d *Dashboard) hidden(e *edit) map[string]string {
	texts := make(map[string]string)
	rules := d.loaded()
	if i := indexOf(e.kind, rules, e.id); e.action == change && i >= 0 {
		for _, text := range (ruleText{e.kind, rules, i}).private() {
			texts[d.hash(text.Text)] = text.Text
		}
	}
	return texts
}

// reasonOf returns why a rule is changed, without what cannot be seen around it; "" if nobody says it.
func reasonOf(q *query) string {
	reason := strings.TrimFunc(q.values.Get("reason"), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	if !utf8.ValidString(reason) || utf8.RuneCountInString(reason) > maxReasonLength {
		q.fault("reason", quoted(reason), fmt.Sprintf("text of up to %d characters, in UTF-8", maxReasonLength))
	}
	return reason
}

func (d *Dashboard) serveAdd(w http.ResponseWriter, r *http.Request) {
	who, ok := d.authorized(w, r)
	if !ok {
		return
	}
	q := parameters(r, "kind", "source", "reason")
	q.required("kind", strings.Join(kindNames(), " or "))
	name := q.oneOf("kind", "", kindNames()...)
	source := d.sourceOf(q.values.Get("source"))
	if !d.writable(source) {
		q.fault("source", quoted(source), "one of the sources that about tells")
	}
	reason := reasonOf(q)
	if q.failed(w) {
		return
	}
	d.serve(w, r, who, &edit{kind: kindOf(name), action: add, source: source, reason: reason})
}

func (d *Dashboard) serveChange(w http.ResponseWriter, r *http.Request) { d.serveEdit(w, r, change) }

func (d *Dashboard) serveRemove(w http.ResponseWriter, r *http.Request) { d.serveEdit(w, r, remove) }

func (d *Dashboard) serveEdit(w http.ResponseWriter, r *http.Request, what action) {
	who, ok := d.authorized(w, r)
	if !ok {
		return
	}
	q := parameters(r, "kind", "id", "reason")
	key, reason := ruleOf(q), reasonOf(q)
	if q.failed(w) {
		return
	}
	version := strings.TrimPrefix(r.Header.Get("If-Match"), "W/") // a proxy that compresses may put it there
	if version == "" {
		fail(w, problem{Status: http.StatusPreconditionRequired, Detail: `want If-Match with the version of the rule that you have seen, in quotes`})
		return
	}
	version = strings.Trim(version, `"`)
	d.serve(w, r, who, &edit{kind: kindOf(key.kind), action: what, id: key.id, version: version, reason: reason})
}
