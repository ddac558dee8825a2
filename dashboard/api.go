package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

type endpoint struct {
	methods []string
	serve   func(w http.ResponseWriter, r *http.Request)
}

const (
	// maxLarge is the number of large answers that are made and sent at the same time. Further requests wait.
	maxLarge = 4
	// largePatience is how long a large answer may take to be sent.
	largePatience = 10 * time.Second
)

// large returns serve for answers that grow with the number of resources or rules. It bounds the memory that clients
// can take that do not read them.
func (d *Dashboard) large(serve http.HandlerFunc) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case d.sending <- struct{}{}:
			defer func() { <-d.sending }()
		case <-r.Context().Done():
			return
		}
		control := http.NewResponseController(w)
		err := control.SetWriteDeadline(time.Now().Add(largePatience))
		serve(w, r)
		if err == nil {
			_ = control.Flush() // before the deadline goes, which must not outlive the answer
			_ = control.SetWriteDeadline(time.Time{})
		}
	}
}

func (d *Dashboard) endpoints() map[string]endpoint {
	get := []string{http.MethodGet}
	return map[string]endpoint{
		"about":     {get, d.serveAbout},
		"kinds":     {get, d.serveKinds},
		"events":    {get, d.serveEvents},
		"resources": {get, d.large(d.serveResources)},
		"resource":  {get, d.serveResource},
		"history":   {get, d.serveHistory},
		"minute":    {get, d.large(d.serveMinute)},
		"bound":     {get, d.large(d.serveBound)},
		"rules":     {[]string{http.MethodGet, http.MethodPost}, d.serveRules},
		"rule":      {[]string{http.MethodGet, http.MethodPut, http.MethodDelete}, d.serveRule},
		"limiters":  {get, d.serveLimiters},
		"load":      {get, d.serveLoad},
		"who":       {get, d.serveWho},
	}
}

func (d *Dashboard) serveAPI(w http.ResponseWriter, r *http.Request, name string) {
	e, ok := d.api[name]
	if !ok {
		fail(w, problem{Status: http.StatusNotFound, Detail: "there is no such thing in the API"})
		return
	}
	if !allowed(w, r, e.methods...) {
		return
	}
	if len(r.URL.RawQuery) > maxQuery {
		fail(w, problem{Status: http.StatusRequestURITooLong, Detail: fmt.Sprintf("want a query of at most %d bytes", maxQuery)})
		return
	}
	// A page elsewhere could not read the answer, but could take the room of viewers.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		e.serve(w, r)
	default:
		fail(w, problem{Status: http.StatusForbidden, Detail: "the request comes from another origin"})
	}
}

// noParameters answers a request that has any parameters.
func (d *Dashboard) noParameters(w http.ResponseWriter, r *http.Request) bool {
	return !parameters(r).failed(w)
}

// about is what a dashboard is, and what the one who asks may do.
type about struct {
	Title        string       `json:"title"`
	Version      int          `json:"version"` // of the API
	Capabilities capabilities `json:"capabilities"`
	Who          string       `json:"who,omitempty"`
	Sources      []string     `json:"sources"`
	HiddenKeys   bool         `json:"hiddenKeys"` // from the one who asks
	RuleSources  []sourceView `json:"ruleSources"`
}

type capabilities struct {
	Edit bool `json:"edit"`
	Keys bool `json:"keys"` // those who may change rules see keys, and others do not

	History bool `json:"history,omitempty"` // there is GET history
}

func (d *Dashboard) serveAbout(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	a := about{Title: d.cfg.Title, Version: 1, Sources: []string{}, RuleSources: d.sourceStates(d.loaded())}
	who, ok := d.editor(r)
	sees := d.visibilityFor(ok)
	d.hide(sees, a.RuleSources)
	a.HiddenKeys = sees&seesKeys == 0
	a.Capabilities.History = d.cfg.KeepHistory
	if d.cfg.Authorize != nil {
		a.Capabilities.Edit = true
		a.Who = who
		a.Sources = slices.Clone(d.sources)
		d.hide(sees, a.Sources)
		a.Capabilities.Keys = d.cfg.ShowKeys == Editors
	}
	answer(w, http.StatusOK, a)
}

// serveWho answers as a change of a rule would be answered, and changes nothing.
func (d *Dashboard) serveWho(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	if who, ok := d.authorized(w, r); ok {
		answer(w, http.StatusOK, struct {
			Who string `json:"who"`
		}{who})
	}
}
