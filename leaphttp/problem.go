package leaphttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
)

// Refusal is why a request was refused.
type Refusal struct {
	// Status is what the answer should have: 429 if a quota is used up; 503 if a limiter
	// cannot count, or the service protects itself; or what Config.Status says.
	Status int

	// RetryAfter is how long from now the request would pass if nobody else came: the
	// longest of all limits, as far as they were asked. It is 0 if it is not known, as while
	// a breaker tries whether it may close, and [limit.Never] if it never would. Retry-After is
	// made of it, in seconds, rounded up; there is none if it is not known, or never.
	RetryAfter time.Duration

	// Policies are the names of the limits that are used up; there are none if the gate
	// refuses, or a limiter fails or cannot count.
	Policies []string

	// Block is the refusal of the gate. It shows the inside of the service, so clients do
	// not get it.
	Block *leapgate.BlockError

	// Err is the error of a limiter that failed, of the gate, or of the request's context.
	// If a limiter refuses because it cannot count, it is a [*RefusedError].
	Err error

	violated *policy // one of the Policies, which knows the answer if it is the only one
}

// setHeader sets what every refusal has. A 429 must not be stored by a cache (RFC 6585).
func (f *Refusal) setHeader(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if f.passesLater() {
		h.Set("Retry-After", strconv.FormatInt(seconds(f.RetryAfter), 10))
	}
}

// passesLater reports whether it is known when the request would pass.
func (f *Refusal) passesLater() bool { return f.RetryAfter > 0 && f.RetryAfter != limit.Never }

// WriteProblem answers with Status and problem details (RFC 9457), which say what kind
// of refusal it is and which policies are violated, and nothing of the request. It is the
// default of Config.Refuse, and for functions there that answer only some clients
// otherwise.
func (f *Refusal) WriteProblem(w http.ResponseWriter) {
	var body []byte
	p := f.violated
	if p != nil && f.Status == http.StatusTooManyRequests && len(f.Policies) == 1 && f.Policies[0] == p.name {
		body = p.problem
	} else {
		body = problem(f.Status, f.Policies)
	}
	h := w.Header()
	h.Del("Content-Encoding") // of an answer that will not be
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Status)
	_, _ = w.Write(body) // an error means that the client has gone
}

type problemDetails struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Policies []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// problem returns the body. Its types are those of draft-ietf-httpapi-ratelimit-headers.
func problem(status int, policies []string) []byte {
	p := problemDetails{Type: "about:blank", Title: http.StatusText(status), Status: status, Policies: policies}
	switch status {
	case http.StatusTooManyRequests:
		p.Type, p.Title = problemTypes+"quota-exceeded", "Quota exceeded"
		p.Detail = "Too many requests in this time."
		if len(policies) == 1 {
			p.Detail = fmt.Sprintf("The quota %q is used up.", policies[0])
		}
	case http.StatusServiceUnavailable:
		p.Type, p.Title = problemTypes+"temporary-reduced-capacity", "Temporarily reduced capacity"
		p.Detail = "The service is not able to take this request now."
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(body, '\n')
}
