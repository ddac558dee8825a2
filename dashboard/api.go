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
		"about": {get, d.serveAbout},
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
	e.serve(w, r)
}

// about is what a dashboard is, and what the one who asks may do.
type about struct {
	Title        string       `json:"title"`
	Version      int          `json:"version"`
	Capabilities capabilities `json:"capabilities"`
	Who          string       `json:"who,omitempty"`
	Sources      []string     `json:"sources"`
	HiddenKeys   bool         `json:"hiddenKeys"`
}

type capabilities struct {
	Edit bool `json:"edit"`
}

func (d *Dashboard) serveAbout(w http.ResponseWriter, r *http.Request) {
	a := about{
		Title: d.cfg.Title, Version: 1, HiddenKeys: d.cfg.HideKeys,
		Capabilities: capabilities{Edit: d.cfg.Authorize != nil},
		Sources:      []string{},
	}
	answer(w, http.StatusOK, a)
}

type ruleView struct{}
