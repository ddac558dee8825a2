package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/leapgate-go/leapgate/limit"
)

// limiterView is a limiter as the API shows it.
type limiterView struct {
	Limits    []limitView    `json:"limits"`
	Keys      int            `json:"keys"`
	MaxKeys   int            `json:"maxKeys"`
	Allowed   int64          `json:"allowed"`
	Refused   int64          `json:"refused"`
	Degraded  int64          `json:"degraded"`
	Away      bool           `json:"away"`
	Expired   int64          `json:"expired"`
	Evicted   int64          `json:"evicted"`
	Crowded   int64          `json:"crowded"`
	Bytes     int64          `json:"bytes"`
	Coarse    int64          `json:"coarse"`
	Offenders []offenderView `json:"offenders"`
}

type limitView struct {
	Name   string `json:"name"`
	Limit  int64  `json:"limit"`
	Window millis `json:"window"`
}

type offenderView struct {
	Key     string `json:"key"`
	Refused int64  `json:"refused"`
	Excess  int64  `json:"excess"`
}

const mostOffenders = 10 // that are shown of each limiter

func (d *Dashboard) limiters() []limiterView {
	all := make([]limiterView, 0, len(d.cfg.Limiters))
	for _, l := range d.cfg.Limiters {
		s := l.Stats()
		v := limiterView{
			Limits: []limitView{}, Keys: s.Keys, MaxKeys: s.MaxKeys,
			Allowed: s.Allowed, Refused: s.Refused, Degraded: s.Degraded, Away: s.Away,
			Expired: s.Expired, Evicted: s.Evicted, Crowded: s.Crowded, Bytes: s.Bytes, Coarse: s.Coarse,
			Offenders: []offenderView{},
		}
		for _, one := range l.Describe() {
			v.Limits = append(v.Limits, limitView{one.Name, one.Limit, millis(one.Window)})
		}
		if o, ok := l.(interface{ Offenders(k int) []limit.Offender }); ok {
			for _, worst := range o.Offenders(mostOffenders) {
				v.Offenders = append(v.Offenders, offenderView{d.shownKey(worst.Key), worst.Refused, worst.Excess})
			}
		}
		all = append(all, v)
	}
	return all
}

// shownKey gives a key as viewers see it.
func (d *Dashboard) shownKey(key string) string {
	if !d.cfg.HideKeys {
		return key
	}
	hash := hmac.New(sha256.New, d.secret) // addresses are few: a bare hash could be undone
	_, _ = hash.Write([]byte(key))         // it never fails
	return "key-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

func (d *Dashboard) serveLimiters(w http.ResponseWriter, r *http.Request) {
	if !d.known(w, r) {
		return
	}
	answer(w, http.StatusOK, struct {
		Limiters []limiterView `json:"limiters"`
	}{d.limiters()})
}
