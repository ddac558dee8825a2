package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/leapgate-go/leapgate/stat"
)

const maxBound = 100 // resources of a rule that are told

// boundResource is a resource that a rule binds, and what the rule did there.
type boundResource struct {
	Name     string      `json:"name"`
	Raw      string      `json:"raw,omitempty"`
	PassQPS  number      `json:"passQPS"`
	BlockQPS number      `json:"blockQPS"`
	Figures  figuresView `json:"figures"`
}

type boundResources struct {
	At        stamp           `json:"at"`
	Total     int             `json:"total"`
	Resources []boundResource `json:"resources"`
	Hour      *rowsView       `json:"hour,omitempty"`
}

// hourOf returns what a rule refused on all that it binds, and would have, in the steps of the last hour.
func (p *past) hourOf(key ruleKey, now int64) rowsView {
	p.mu.Lock()
	defer p.mu.Unlock()
	sums := make(map[int64][3]int64) // by steps
	for _, r := range p.resources {
		if r.rowsPast == nil || r.rules[key] == nil {
			continue
		}
		rule := r.rules[key]
		for step, figures := range rule.hour.From((now-1)/stepSeconds - hourSteps) {
			sum := sums[step]
			sum[0] += figures[pastBlocked]
			sum[1] += figures[pastRuleWouldBlock]
			sum[2] += figures[pastCandidateWouldBlock]
			sums[step] = sum
		}
	}
	v := rowsView{Columns: []string{"at", "blocked", "wouldBlock", "candidateWouldBlock"}, Rows: [][]any{}}
	for _, step := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[step]
		v.Rows = append(v.Rows, []any{step * stepSeconds, sum[0], sum[1], sum[2]})
	}
	return v
}

// serveBound answers with what a rule did on each of the resources that it binds, those first that it refused last.
func (d *Dashboard) serveBound(w http.ResponseWriter, r *http.Request) {
	q := parameters(r, "kind", "id", "hour")
	key := ruleKey{q.required("kind", "the kind of a rule"), q.required("id", "the ID of a rule")}
	hour := q.oneOf("hour", "", "1") == "1"
	if q.failed(w) {
		return
	}
	type found struct {
		resource *stat.Snapshot
		rule     *stat.RuleSnapshot
	}
	var bound []found
	all := d.snapshot()
	for i := range all {
		for k := range all[i].Rules {
			if f := &all[i].Rules[k]; f.Kind == key.kind && f.ID == key.id {
				bound = append(bound, found{&all[i], f})
			}
		}
	}
	slices.SortStableFunc(bound, func(a, b found) int { // they come by name
		return cmp.Or(b.rule.LastRefusal.At.Compare(a.rule.LastRefusal.At), cmp.Compare(b.rule.Admitted, a.rule.Admitted))
	})
	at := d.timeOf(all)
	v := boundResources{At: stamp(at), Total: len(bound), Resources: make([]boundResource, min(len(bound), maxBound))}
	sees := d.visibilityOf(r)
	for i := range v.Resources {
		s := bound[i].resource
		v.Resources[i] = boundResource{
			Name: s.Resource, Raw: rawOf(s.Resource), PassQPS: number(s.PassQPS), BlockQPS: number(s.BlockQPS),
			Figures: figuresOfRule(s, bound[i].rule),
		}
		d.hide(sees, &v.Resources[i].Figures)
	}
	if hour && d.past != nil {
		steps := d.past.hourOf(key, at.Unix())
		v.Hour = &steps
	}
	answer(w, http.StatusOK, v)
}
