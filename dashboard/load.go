package dashboard

import (
	"net/http"

	"github.com/leapgate-go/leapgate/stat"
)

// loadView is what is known of the load of the machine. What is not is left out.
type loadView struct {
	CPU          *signalView `json:"cpu,omitempty"`
	Throttled    *signalView `json:"throttled,omitempty"`
	Pressure     *signalView `json:"pressure,omitempty"`
	SchedLatency *signalView `json:"schedLatency,omitempty"` // in milliseconds
	Processors   number      `json:"processors,omitempty"`
}

type signalView struct {
	Value number `json:"value"`
	Raw   number `json:"raw"`
}

func (d *Dashboard) load() loadView {
	s := d.gate.Signals()
	return loadView{
		CPU: signalOf(s.CPU, 1), Throttled: signalOf(s.Throttled, 1), Pressure: signalOf(s.Pressure, 1),
		SchedLatency: signalOf(s.SchedLatency, 1000), Processors: number(s.Processors),
	}
}

func signalOf(s stat.Signal, scale float64) *signalView {
	if !s.Known {
		return nil
	}
	return &signalView{number(s.Value * scale), number(s.Raw * scale)}
}

func (d *Dashboard) serveLoad(w http.ResponseWriter, r *http.Request) {
	if d.noParameters(w, r) {
		answer(w, http.StatusOK, d.load())
	}
}
