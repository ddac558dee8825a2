package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

type resourceView struct {
	Name         string `json:"name"`
	Raw          string `json:"raw,omitempty"`
	PassQPS      number `json:"passQPS"`
	BlockQPS     number `json:"blockQPS"`
	SuccessQPS   number `json:"successQPS"`
	ExceptionQPS number `json:"exceptionQPS"`
	AvgRT        millis `json:"avgRT"`
	MinRT        millis `json:"minRT"`
	P50          millis `json:"p50"`
	P95          millis `json:"p95"`
	P99          millis `json:"p99"`
	Concurrency  int64  `json:"concurrency"`
	Waiting      int64  `json:"waiting"`
	Waits        int64  `json:"waits"`
	WaitTime     millis `json:"waitTime"`
	WaitP50      millis `json:"waitP50"`
	WaitP95      millis `json:"waitP95"`
	WaitP99      millis `json:"waitP99"`
	Pass         int64  `json:"pass"`
	Block        int64  `json:"block"`
	Success      int64  `json:"success"`
	Exception    int64  `json:"exception"`
	OccupiedPass int64  `json:"occupiedPass"`
	WouldBlock   int64  `json:"wouldBlock"`
	Ignored      int64  `json:"ignored"`

	MaxConcurrency int64 `json:"maxConcurrency"`
}

func viewOf(s *stat.Snapshot) resourceView {
	return resourceView{
		Name: s.Resource, Raw: rawOf(s.Resource),
		PassQPS: number(s.PassQPS), BlockQPS: number(s.BlockQPS),
		SuccessQPS: number(s.SuccessQPS), ExceptionQPS: number(s.ExceptionQPS),
		AvgRT: millis(s.AvgRT), MinRT: millis(s.MinRT), P50: millis(s.P50), P95: millis(s.P95), P99: millis(s.P99),
		Concurrency: s.Concurrency,
		Waiting:     s.Waiting, Waits: s.Waits, WaitTime: millis(s.WaitTime),
		WaitP50: millis(s.WaitP50), WaitP95: millis(s.WaitP95), WaitP99: millis(s.WaitP99),
		Pass: s.Pass, Block: s.Block, Success: s.Success, Exception: s.Exception,
		OccupiedPass: s.OccupiedPass, WouldBlock: s.WouldBlock, Ignored: s.Ignored,
		MaxConcurrency: s.MaxConcurrency,
	}
}

const maxResources = 100_000 // in one answer

func (d *Dashboard) serveResources(w http.ResponseWriter, r *http.Request) {
	q := parameters(r, "filter", "limit")
	limit := q.count("limit", maxResources)
	if q.failed(w) {
		return
	}
	all := d.snapshot()
	found := make([]*stat.Snapshot, 0, len(all))
	filter := strings.ToLower(q.values.Get("filter"))
	for i := range all {
		if strings.Contains(strings.ToLower(all[i].Resource), filter) {
			found = append(found, &all[i])
		}
	}
	type view struct {
		resourceView
		Rules int `json:"rules"`
	}
	views := make([]view, min(len(found), limit))
	for i := range views {
		views[i] = view{viewOf(found[i]), len(found[i].Rules)}
	}
	answer(w, http.StatusOK, struct {
		At        stamp  `json:"at"`
		Total     int    `json:"total"`
		Matched   int    `json:"matched"`
		Resources []view `json:"resources"`
	}{stamp(d.timeOf(all)), len(all), len(found), views})
}

// timeOf returns when figures were read, which is now if there are none. It is by the clock of
// the gate, which need not be that of the wall.
func (d *Dashboard) timeOf(all []stat.Snapshot) time.Time {
	if len(all) == 0 {
		return d.gate.Resource(resource.Other).Snapshot().At
	}
	return all[0].At
}

// snapshot returns the figures of all resources. They are read for one request at a time, so
// that many requests do not take many processors.
func (d *Dashboard) snapshot() []stat.Snapshot {
	d.reading.Lock()
	defer d.reading.Unlock()
	return d.gate.Snapshot()
}

type secondView struct {
	Pass           int64  `json:"pass"`
	Block          int64  `json:"block"`
	Success        int64  `json:"success"`
	Exception      int64  `json:"exception"`
	AvgRT          millis `json:"avgRT"`
	MaxConcurrency int64  `json:"maxConcurrency"`
}

type boundView struct {
	ruleView
	Figures figuresView `json:"figures"`
}

type figuresView struct {
	Mode                string       `json:"mode"`
	Threshold           number       `json:"threshold"`
	Effective           number       `json:"effective"`
	Interval            millis       `json:"interval"`
	Used                int64        `json:"used,omitempty"`
	Admitted            int64        `json:"admitted"`
	Blocked             int64        `json:"blocked"`
	WouldBlock          int64        `json:"wouldBlock"`
	Candidate           number       `json:"candidate"`
	CandidateWouldBlock int64        `json:"candidateWouldBlock"`
	Missing             int64        `json:"withoutArgument,omitempty"`
	Values              int          `json:"values,omitempty"`
	Busiest             []valueView  `json:"busiest,omitempty"`
	RefusedMost         []valueView  `json:"refusedMost,omitempty"`
	Shed                *shedView    `json:"shed,omitempty"`
	LastRefusal         *refusalView `json:"lastRefusal,omitempty"`
	*stateView
}

type valueView struct {
	Value  string `json:"value"`
	Count  int64  `json:"count"`
	Excess int64  `json:"excess"`
}

// shedView is what a rule has blocked, by criticality.
type shedView struct {
	Critical   int64 `json:"critical"`
	Default    int64 `json:"default"`
	Sheddable  int64 `json:"sheddable"`
	Background int64 `json:"background"`
}

func shedOf(n stat.ByCriticality) *shedView {
	if n == (stat.ByCriticality{}) {
		return nil
	}
	return &shedView{n.Critical, n.Default, n.Sheddable, n.Background}
}

type stateView struct {
	State       string       `json:"state"`
	States      []string     `json:"states"`
	Since       *stamp       `json:"since,omitempty"`
	Changes     int64        `json:"changes"`
	LastChanges []changeView `json:"lastChanges"`
}

type changeView struct {
	At     stamp  `json:"at"`
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

func stateOf(r *stat.RuleSnapshot) *stateView {
	if r.State == "" {
		return nil
	}
	v := &stateView{State: r.State, States: r.States, Changes: r.Changes, LastChanges: make([]changeView, len(r.LastChanges))}
	if !r.Since.IsZero() {
		v.Since = (*stamp)(&r.Since)
	}
	for i, c := range r.LastChanges {
		v.LastChanges[i] = changeView{stamp(c.At), c.From, c.To, c.Reason}
	}
	return v
}

func valuesOf(counts []stat.ValueCount) []valueView {
	values := make([]valueView, len(counts))
	for i, c := range counts {
		values[i] = valueView(c)
	}
	return values
}

type refusalView struct {
	At         stamp  `json:"at"`
	Origin     string `json:"origin"`
	Observed   number `json:"observed"`
	Threshold  number `json:"threshold"`
	RetryAfter millis `json:"retryAfter"`
	Reason     string `json:"reason"`
}

func (d *Dashboard) serveResource(w http.ResponseWriter, r *http.Request) {
	q := parameters(r, "name")
	name := q.required("name", "the name of a resource")
	if q.failed(w) {
		return
	}
	var history []stat.Second
	handle := d.gate.Lookup(name)
	if handle != nil {
		history = handle.History() // nil if it has gone meanwhile
	}
	if history == nil {
		fail(w, problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("there is no resource %s", quoted(name))})
		return
	}
	s := handle.Snapshot()
	type view struct {
		At      stamp `json:"at"`
		Started stamp `json:"started"`
		resourceView
		History []secondView `json:"history"`
		Rules   []boundView  `json:"rules"`
		Edits   []edited     `json:"edits,omitempty"`
		Kept    bool         `json:"kept,omitempty"` // there is GET history of it
	}
	v := view{At: stamp(s.At), Started: stamp(d.started), resourceView: viewOf(&s), History: make([]secondView, len(history))}
	for i, second := range history {
		v.History[i] = secondView{
			second.Pass, second.Block, second.Success, second.Exception, millis(second.AvgRT), second.MaxConcurrency,
		}
	}
	sees := d.visibilityOf(r)
	v.Rules, v.Kept = d.rulesOf(&s, sees), d.past.keeps(name)
	v.Edits = d.edits.of(name, s.At)
	for i := range v.Rules {
		d.hide(sees, &v.Rules[i].Figures)
	}
	d.hide(sees, v.Edits)
	answer(w, http.StatusOK, v)
}

func (d *Dashboard) rulesOf(s *stat.Snapshot, sees visibility) []boundView {
	rules := make(map[ruleKey]ruleView, len(s.Rules))
	for i := range s.Rules {
		rules[ruleKey{s.Rules[i].Kind, s.Rules[i].ID}] = ruleView{}
	}
	for _, rule := range d.rules(sees, func(key ruleKey) bool { _, ok := rules[key]; return ok }) {
		rules[ruleKey{rule.Kind, rule.ID}] = rule
	}
	bound := make([]boundView, 0, len(s.Rules))
	for i := range s.Rules {
		f := &s.Rules[i]
		v := boundView{ruleView: ruleView{Kind: f.Kind, ID: f.ID, Raw: rawOf(f.ID)}, Figures: figuresOfRule(s, f)}
		if rule := rules[ruleKey{f.Kind, f.ID}]; rule.Kind != "" {
			v.ruleView = rule
		} else if f.Interval > 0 { // of a guard that the program brought
			v.Bounds = string(ruleset.Passes)
		}
		bound = append(bound, v)
	}
	return bound
}

// figuresOfRule returns what a rule of a resource did there.
func figuresOfRule(s *stat.Snapshot, f *stat.RuleSnapshot) figuresView {
	v := figuresView{
		Mode: f.Mode.String(), Threshold: number(f.Threshold), Effective: number(f.Effective), Interval: millis(f.Interval),
		Used: f.Used, Admitted: f.Admitted, Blocked: f.Blocked, WouldBlock: f.WouldBlock,
		Candidate: number(f.Candidate), CandidateWouldBlock: f.CandidateWouldBlock,
		Missing: f.Missing, Values: f.Values, Busiest: valuesOf(f.Busiest), RefusedMost: valuesOf(f.RefusedMost), Shed: shedOf(f.Shed),
		stateView: stateOf(f),
	}
	if b := resource.LastBlock(s.Resource, *f); b != nil {
		last := &f.LastRefusal
		v.LastRefusal = &refusalView{
			stamp(last.At), last.Origin, number(last.Observed), number(last.Threshold), millis(last.RetryAfter), b.Error(),
		}
	}
	return v
}
