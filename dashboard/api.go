package dashboard

import (
	"net/http"
)

// endpoint is one name of the API.
type endpoint struct {
	methods []string
	serve   func(w http.ResponseWriter, r *http.Request)
}

func (d *Dashboard) endpoints() map[string]endpoint {
	get := []string{http.MethodGet}
	return map[string]endpoint{
		"about":     {get, d.serveAbout},
		"events":    {get, d.serveEvents},
		"resources": {get, d.serveResources},
		"resource":  {get, d.serveResource},
		"rules":     {[]string{http.MethodGet, http.MethodPost}, d.serveRules},
		"rule":      {[]string{http.MethodGet, http.MethodPut, http.MethodDelete}, d.serveRule},
		"limiters":  {get, d.serveLimiters},
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
	// A page elsewhere could not read the answer, but could take the places of viewers.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		e.serve(w, r)
	default:
		fail(w, problem{Status: http.StatusForbidden, Detail: "the request comes from another origin"})
	}
}

// known answers a request that has any parameters.
func (d *Dashboard) known(w http.ResponseWriter, r *http.Request) bool {
	return !parameters(r).failed(w)
}

// about is what a dashboard is, and what the one who asks may do.
type about struct {
	Title        string       `json:"title"`
	Version      int          `json:"version"` // of the API
	Capabilities capabilities `json:"capabilities"`
	Who          string       `json:"who,omitempty"`
	Sources      []string     `json:"sources"`
	HiddenKeys   bool         `json:"hiddenKeys"`
}

type capabilities struct {
	Edit bool `json:"edit"`
}

func (d *Dashboard) serveAbout(w http.ResponseWriter, r *http.Request) {
	if !d.known(w, r) {
		return
	}
	a := about{Title: d.cfg.Title, Version: 1, HiddenKeys: d.cfg.HideKeys, Sources: []string{}}
	if d.cfg.Authorize != nil {
		a.Capabilities.Edit, a.Sources = true, d.sources
		if who, err := d.cfg.Authorize(r); err == nil {
			a.Who = who
		}
	}
	answer(w, http.StatusOK, a)
}
