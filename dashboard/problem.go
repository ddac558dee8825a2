package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// problem is an error as the API shows it: RFC 9457.
type problem struct {
	Title  string  `json:"title"` // filled in by fail
	Status int     `json:"status"`
	Detail string  `json:"detail"`
	Faults []fault `json:"faults,omitempty"`
	// Current is the rule as it is, if it has changed since it was read.
	Current *ruleView `json:"current,omitempty"`
}

// fault is what is wrong with one field of a rule, or with one parameter of a query.
type fault struct {
	Field   string `json:"field"`
	Value   string `json:"value,omitempty"` // shortened, for people
	Want    string `json:"want,omitempty"`
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, p problem) {
	p.Title = http.StatusText(p.Status)
	write(w, p.Status, "application/problem+json", p)
}

func answer(w http.ResponseWriter, status int, v any) { write(w, status, "application/json", v) }

// write writes JSON. What is not UTF-8 in its texts becomes U+FFFD.
func write(w http.ResponseWriter, status int, mediaType string, v any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // it is not HTML, and never sniffed for it
	if err := encoder.Encode(v); err != nil {
		panic(err) // only NaN and the like, which finite keeps out
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client has gone, then
}

// allowed answers a request with another method than these, and HEAD where there is GET.
func allowed(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	if slices.Contains(methods, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	fail(w, problem{Status: http.StatusMethodNotAllowed, Detail: "want " + strings.Join(methods, " or ")})
	return false
}
