package dashboard

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/dashboard/internal/history"
)

// minuteBusiest is of how many resources, and of how many rules, the minute is told: of the busiest.
const minuteBusiest = 2000

// The figures of a rule on a resource in a second of the last minute.
const (
	secondAdmitted = iota
	secondBlocked
	secondWouldBlock
	secondCandidateWouldBlock
	ruleSecondFigures
)

var ruleSecondJoins = [ruleSecondFigures]history.Join{history.Sum, history.Sum, history.Sum, history.Sum}

// loadPast is the load in the seconds of the last minute, each where it lies in a minute.
type loadPast [minuteSeconds]struct {
	second int64
	loadView
}

// feedLoad notes the load in the second that has ended.
func (p *past) feedLoad(at time.Time, load loadView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	second := at.Add(-time.Second / 2).Unix()
	p.load[minuteIndex(second)].second, p.load[minuteIndex(second)].loadView = second, load
}

// minuteIndex is where a second lies in a minute. Seconds may be below 0.
func minuteIndex(second int64) int64 {
	return (second%minuteSeconds + minuteSeconds) % minuteSeconds
}

// secondsView is a figure in each second of a minute, NaN where nothing is known.
type secondsView [minuteSeconds]number

func (v *secondsView) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 4*minuteSeconds)
	for i, n := range v {
		b = appendNumber(append(b, "[,"[min(i, 1)]), float64(n))
	}
	return append(b, ']'), nil
}

// minuteView is the last minute of all that was called in it.
type minuteView struct {
	Since     int64                   `json:"since"` // the first second
	Resources []*resourceMinute       `json:"resources"`
	Rules     []*ruleMinute           `json:"rules"`
	Load      map[string]*secondsView `json:"load"`
}

type resourceMinute struct {
	Name      string       `json:"name"`
	Raw       string       `json:"raw,omitempty"`
	Pass      *secondsView `json:"pass"`
	Block     *secondsView `json:"block"`
	Exception *secondsView `json:"exception"`

	calls number
}

type ruleMinute struct {
	Kind                string       `json:"kind"`
	ID                  string       `json:"id"`
	Raw                 string       `json:"raw,omitempty"`
	Admitted            *secondsView `json:"admitted"`
	Blocked             *secondsView `json:"blocked"`
	WouldBlock          *secondsView `json:"wouldBlock"`
	CandidateWouldBlock *secondsView `json:"candidateWouldBlock"`

	calls number
}

// addSeconds adds figures of the steps of a row to views that begin with a second, and returns how much that is together.
func addSeconds(row *history.Row, since int64, views ...*secondsView) (sum number) {
	for second, figures := range row.From(since) {
		if second >= since+minuteSeconds {
			break
		}
		for i, v := range views {
			n := number(figures[i])
			sum += n
			if at := &v[second-since]; math.IsNaN(float64(*at)) {
				*at = n
			} else {
				*at += n
			}
		}
	}
	return sum
}

func unknown() *secondsView {
	v := new(secondsView)
	for i := range v {
		v[i] = number(math.NaN())
	}
	return v
}

// minute returns the minute before a second.
func (p *past) minute(now int64) minuteView {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := now - minuteSeconds
	v := minuteView{Since: since, Resources: []*resourceMinute{}, Rules: []*ruleMinute{}, Load: make(map[string]*secondsView)}
	rules := make(map[ruleKey]*ruleMinute)
	for name, r := range p.resources {
		if r.rowsPast == nil || r.called < since {
			continue
		}
		m := &resourceMinute{Name: name, Raw: rawOf(name), Pass: unknown(), Block: unknown(), Exception: unknown()}
		m.calls = addSeconds(r.minute, since, m.Pass, m.Block, m.Exception)
		v.Resources = append(v.Resources, m)
		for key, past := range r.rules {
			m := rules[key]
			if m == nil {
				m = &ruleMinute{
					Kind: key.kind, ID: key.id, Raw: rawOf(key.id),
					Admitted: unknown(), Blocked: unknown(), WouldBlock: unknown(), CandidateWouldBlock: unknown(),
				}
				rules[key] = m
				v.Rules = append(v.Rules, m)
			}
			m.calls += addSeconds(past.minute, since, m.Admitted, m.Blocked, m.WouldBlock, m.CandidateWouldBlock)
		}
	}
	slices.SortFunc(v.Resources, func(a, b *resourceMinute) int { return cmp.Compare(b.calls, a.calls) })
	slices.SortFunc(v.Rules, func(a, b *ruleMinute) int { return cmp.Compare(b.calls, a.calls) })
	v.Resources, v.Rules = v.Resources[:min(len(v.Resources), minuteBusiest)], v.Rules[:min(len(v.Rules), minuteBusiest)]
	for _, s := range p.load {
		if s.second < since || s.second >= now {
			continue
		}
		for name, signal := range map[string]*signalView{
			"cpu": s.CPU, "throttled": s.Throttled, "pressure": s.Pressure, "schedLatency": s.SchedLatency,
		} {
			if signal == nil {
				continue
			}
			if v.Load[name] == nil {
				v.Load[name] = unknown()
			}
			v.Load[name][s.second-since] = signal.Value
		}
	}
	return v
}

func (d *Dashboard) serveMinute(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	if d.past == nil {
		fail(w, noHistory)
		return
	}
	answer(w, http.StatusOK, d.past.minute(d.timeOf(nil).Unix()))
}
