package dashboard

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

type limiterView struct {
	Limits      []limitView    `json:"limits"`
	InFlight    int64          `json:"inFlight,omitempty"`
	Keys        int            `json:"keys"`
	MaxKeys     int            `json:"maxKeys"`
	Allowed     int64          `json:"allowed"`
	Refused     int64          `json:"refused"`
	WouldRefuse int64          `json:"wouldRefuse"`
	Degraded    int64          `json:"degraded"`
	Away        bool           `json:"away"`
	Expired     int64          `json:"expired"`
	Evicted     int64          `json:"evicted"`
	Crowded     int64          `json:"crowded"`
	Bytes       int64          `json:"bytes"`
	Coarse      int64          `json:"coarse"`
	Offenders   []offenderView `json:"offenders"`
}

type limitView struct {
	Name   string    `json:"name"`
	Limit  int64     `json:"limit"`
	Window millis    `json:"window"`
	Burst  int64     `json:"burst,omitempty"`
	Mode   rule.Mode `json:"mode,omitempty"`
}

type offenderView struct {
	Key     string `json:"key"`
	Refused int64  `json:"refused"`
	Excess  int64  `json:"excess"`
}

const maxOffenders = 10 // that are shown of each limiter

func (d *Dashboard) limiters() []limiterView {
	all := make([]limiterView, len(d.cfg.Limiters))
	for i, l := range d.cfg.Limiters {
		all[i] = limiterView{Limits: []limitView{}, Offenders: []offenderView{}}
		d.recovered(&d.limiterFault, "a limiter", func() { readLimiter(l, &all[i]) })
	}
	return all
}

// recovered calls what the program brought. If it panics, what it has not told is left out, and the
// log is told the first time: looking must not end the program.
func (d *Dashboard) recovered(fault *sync.Once, what string, look func()) {
	defer func() {
		if cause := recover(); cause != nil {
			fault.Do(func() {
				d.cfg.Logger.Error("leapgate: "+what+" on the dashboard panicked; its figures are left out", "panic", escape.Text(fmt.Sprint(cause)))
			})
		}
	}()
	look()
}

func readLimiter(l Limiter, v *limiterView) {
	for _, one := range l.Describe() {
		v.Limits = append(v.Limits, limitView{one.Name, one.Limit, millis(one.Window), one.Burst, one.Mode})
	}
	s := l.Stats()
	v.InFlight = s.InFlight
	v.Keys, v.MaxKeys = s.Keys, s.MaxKeys
	v.Allowed, v.Refused, v.WouldRefuse, v.Degraded, v.Away = s.Allowed, s.Refused, s.WouldRefuse, s.Degraded, s.Away
	v.Expired, v.Evicted, v.Crowded, v.Bytes, v.Coarse = s.Expired, s.Evicted, s.Crowded, s.Bytes, s.Coarse
	if o, ok := l.(interface{ Offenders(k int) []limit.Offender }); ok {
		for _, worst := range o.Offenders(maxOffenders) {
			v.Offenders = append(v.Offenders, offenderView{worst.Key, worst.Refused, worst.Excess})
		}
	}
}

func (d *Dashboard) serveLimiters(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	all := d.limiters()
	d.hide(d.visibilityOf(r), all)
	answer(w, http.StatusOK, struct {
		Limiters []limiterView `json:"limiters"`
	}{all})
}
