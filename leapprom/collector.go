// Package leapprom exports the figures of a gate, and of limiters, to Prometheus.
//
//	collector, err := leapprom.New(gate, leapprom.Config{})
//	…
//	prometheus.MustRegister(collector)
//	http.Handle("/metrics", promhttp.Handler())
//
// What is exported is the totals that the gate counts anyway, read when Prometheus asks:
// calls do no work for it. All metrics begin with "leapgate_" and have the label "gate".
//
//	entries_total{resource, result}              calls, by result: pass or block
//	exceptions_total{resource}                   completed calls that failed
//	ignored_total{resource}                      completed calls that say nothing about the resource
//	occupied_passes_total{resource}              passes that borrowed from a later bucket
//	response_time_seconds{resource}              histogram, native and classic
//	entries_in_flight{resource}                  calls that have not completed
//	wait_time_seconds{resource}                  histogram, native and classic: how long calls
//	                                             waited before they began, or gave up
//	entries_waiting{resource}                    calls that wait now
//	blocks_total{resource, guard, rule}          what a rule has blocked
//	would_blocks_total{resource, guard, rule}    what one in mode shadow would have
//	candidate_would_blocks_total{…}              what its candidate threshold would have
//	rule_threshold{resource, guard, rule}        also rule_effective_threshold,
//	                                             rule_candidate_threshold, rule_interval_seconds
//	rule_used{resource, guard, rule}             what of a flow or isolation rule is used now
//	rule_info{resource, guard, rule, mode}       1
//	rule_state{resource, guard, rule, state}     1 for the state that it is in, 0 for the others
//	rule_changes_total{resource, guard, rule}    how often it went over to another
//	resources, guard_faults_total                of the gate
//	evicted_resources_total                      resources that gave their place to another name
//	remembered_resources                         those of which it is remembered what they have used
//	forgotten_resources_total                    those of which that had to be forgotten too early
//	forgotten_calls_total                        calls that had passed there
//	load_cpu_ratio, load_throttled_ratio,        of the machine, as far as Config.Load of the
//	load_pressure_ratio, load_processors,        gate knows them: see package load
//	load_scheduling_latency_seconds,
//	rules_last_load_successful{source}           whether the rules of a file are the active ones
//	rules_last_load_timestamp_seconds{source}    when they were loaded
//
// and for each limiter, with the label "limiter": limiter_decisions_total{answer},
// limiter_would_refuse_total, limiter_degraded_decisions_total, limiter_away, limiter_in_flight, limiter_keys, limiter_max_keys,
// limiter_expired_keys_total, limiter_evicted_keys_total, limiter_crowded_calls_total,
// limiter_coarse_admissions_total, limiter_log_bytes, limiter_limit and
// limiter_window_seconds. No key is ever a label.
//
// # Exactness
//
// The sum over all resources of any counter is what was counted, exactly, and no series
// ever goes back. The resource "other" is what all others leave of that sum: what the
// gate counts in its own resource of that name, and what resources without series of
// their own count (see Config.MaxResources). When a resource is evicted its series stay,
// and go on when it comes again. Only what it counted between the last reading and its
// eviction shows in other.
//
// So it is with the blocks of rules, and the changes of their states: the rule "other" of the resource "other" has what
// was blocked by rules that have no series any more, and on resources without. The blocks
// of a rule that is removed stay, and go on if it is loaded again; only its threshold and its
// state end.
// Of the removed rules of a resource, the last five keep their series; one that has lost
// them, and is loaded again, begins anew.
//
// The two of waits are there for resources in which a call has waited. Response times begin
// when a wait is over: what a caller saw is both.
//
// Created timestamps tell when a series began: entries, exceptions and the two histograms
// have them.
//
// Within one reading, entries, exceptions and rules may be a few calls apart. The sum over
// rules of blocks is that of entries with result block, if no call is on its way, and if
// guards of the program count what they block.
//
// # Label values
//
// Names may have any bytes; label values are UTF-8 of up to 255 bytes. What is not UTF-8
// is replaced by U+FFFD, and what is longer is cut, with an ellipsis at its end.
//
// # Histograms
//
// The edges of the native histograms are those by which the gate counts: schema 3, from a
// zero bucket that ends at 2^−20 s (0.95 µs) to 108 s; what took longer is in the bucket
// above. They are exact. The classic buckets are those of Config.Buckets, and are sums of native ones: their
// edges are off by up to 4.4 %. Prometheus takes the native ones if it is told to.
package leapprom

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Collector exports one gate. It may be registered in several registries, and several
// collectors may export one gate; in one registry, collectors must differ in Config.Gate.
// Its methods may be called by any number of goroutines at once.
type Collector struct {
	gate        *leapgate.Gate
	cfg         Config
	descs       *descs
	limiters    []*limiter
	ruleSources []*ruleSource
	classic     *classicBuckets // nil with NativeOnly

	mu       sync.Mutex // guards what is below: one reading at a time
	sources  map[string]*source
	sorted   []*source       // by label: the registry has little to sort then
	values   map[string]bool // of the label "resource" that are taken
	unnamed  int             // sources that no rule named when they came
	newest   int64           // the highest serial that was read
	lastRule int64           // the last serial of a rule that there was then
	readings int64
	other    *source // for the labels and the rules of the resource other
	guards   map[string]string
	rests    map[string][]*dto.LabelPair // of the rule other, by guard
	sizes    [3]int                      // of the last samples, to make room for as many
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a collector of a gate. The error, if any, is [ErrConfig], and lists
// everything that is wrong.
func New(gate *leapgate.Gate, cfg Config) (*Collector, error) {
	limiters, ruleSources, err := cfg.complete(gate)
	if err != nil {
		return nil, err
	}
	c := &Collector{
		gate: gate, cfg: cfg, descs: newDescs(cfg.Gate), limiters: limiters, ruleSources: ruleSources,
		sources: make(map[string]*source),
		values:  map[string]bool{resource.Other: true},
		other:   newSource(cfg.Gate, resource.Other, resource.Other),
		guards:  make(map[string]string),
		rests:   make(map[string][]*dto.LabelPair),
	}
	if !cfg.NativeOnly {
		c.classic = newClassicBuckets(cfg.Buckets)
	}
	return c, nil
}

// Must is [New] for a configuration that is known to be good. It panics otherwise.
func Must(gate *leapgate.Gate, cfg Config) *Collector {
	c, err := New(gate, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs.all {
		ch <- d
	}
}

// Collect reads the figures.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.read().send(ch)
}

func (c *Collector) read() *samples {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.gate.Totals()
	left := c.readAll(all)
	s := &samples{
		counters:   make([]counter, 0, c.sizes[0]),
		gauges:     make([]gauge, 0, c.sizes[1]),
		histograms: make([]histogram, 0, c.sizes[2]),
	}
	if len(c.sorted) != len(c.sources) {
		c.sorted = slices.SortedFunc(maps.Values(c.sources), func(a, b *source) int { return strings.Compare(a.value(), b.value()) })
	}
	for _, src := range c.sorted {
		shown := src.shown()
		of := series{counts: shown.counts, inFlight: src.inFlight, waiting: src.waiting}
		of.latencies.add(shown.latencies, 1)
		of.waits.add(shown.waits, 1)
		c.collect(s, src, &of)
	}
	c.collect(s, c.other, &left.series)
	for guard, sum := range left.rules {
		c.collectRest(s, guard, sum)
	}
	gate := c.other.labels[:1:1]
	s.gauge(c.descs.resources, gate, float64(len(all)))
	s.count(c.descs.guardFaults, gate, nil, c.gate.GuardFaults())
	evictions := c.gate.Evictions()
	s.count(c.descs.evicted, gate, nil, evictions.Evicted)
	s.gauge(c.descs.remembered, gate, float64(evictions.Remembered))
	s.count(c.descs.forgotten, gate, nil, evictions.Forgotten)
	s.count(c.descs.forgottenCalls, gate, nil, evictions.ForgottenCalls)
	collectLoad(c.descs, s, gate, c.gate.Signals())
	for _, l := range c.limiters {
		l.read(c.descs, s)
	}
	for _, r := range c.ruleSources {
		r.read(c.descs, s)
	}
	c.sizes = [3]int{len(s.counters), len(s.gauges), len(s.histograms)}
	return s
}

// readAll lets every source read its totals, and returns what is left.
func (c *Collector) readAll(all []resource.Totals) *rest {
	left := &rest{rules: make(map[string]resource.RuleTotals)}
	c.readings++
	c.other.forget()
	for _, src := range c.sources {
		src.forget()
	}
	newest := c.newest
	var former map[int64]resource.RuleTotals
	for i := range all {
		t := &all[i]
		newest = max(newest, t.Serial)
		for k := range t.Rules {
			guard := c.guard(t.Rules[k].Kind)
			left.rules[guard] = left.rules[guard].Plus(resource.OwnTotalsOf(&t.Rules[k]))
		}
		if t.Resource == resource.Other {
			left.add(t)
			for kind, past := range t.FormerRules {
				guard := c.guard(kind)
				left.rules[guard] = left.rules[guard].Plus(past)
			}
			former = t.FormerBySerial
			if c.other.created == nil {
				c.other.created = timestamppb.New(t.Since)
			}
			c.other.readRules(c, t)
		} else if src := c.source(t); src != nil {
			src.read(c, t)
		} else {
			left.add(t)
		}
	}
	c.newest, c.lastRule = newest, all[0].LastRuleSerial
	c.bound()
	left.leaveRules(c.other, former)
	for _, src := range c.sources {
		left.leave(src)
		left.leaveRules(src, former)
	}
	return left
}

// bound ends the series of resources that have them because a rule named them, and that
// the gate does not keep any more, if there are too many: the oldest first. Other takes
// what they showed.
func (c *Collector) bound() {
	var gone []*source
	for _, src := range c.sources {
		if src.guest && !src.present {
			gone = append(gone, src)
		}
	}
	if len(gone) <= c.cfg.MaxResources {
		return
	}
	slices.SortFunc(gone, func(a, b *source) int { return cmp.Compare(a.serial, b.serial) })
	for _, src := range gone[:len(gone)-c.cfg.MaxResources] {
		delete(c.sources, src.name)
		delete(c.values, src.value())
	}
	c.sorted = nil
}

// source returns the source of a resource, a new one if it can have one, nil if not.
func (c *Collector) source(t *resource.Totals) *source {
	if src := c.sources[t.Resource]; src != nil {
		return src
	}
	if !t.Named && c.unnamed >= c.cfg.MaxResources {
		return nil
	}
	value := label(t.Resource)
	if c.values[value] {
		return nil
	}
	src := newSource(c.cfg.Gate, t.Resource, value)
	if src.promoted = t.Serial <= c.newest; !src.promoted {
		src.created = timestamppb.New(t.Since)
	}
	if src.guest = t.Named; !src.guest {
		c.unnamed++
	}
	c.values[value] = true
	c.sources[t.Resource] = src
	return src
}

func (c *Collector) collect(s *samples, src *source, of *series) {
	d, counts, classic := c.descs, &of.counts, c.classic
	s.count(d.entries, src.block, src.created, counts[metric.Block])
	s.count(d.entries, src.pass, src.created, counts[metric.Pass])
	s.count(d.exceptions, src.labels, src.created, counts[metric.Exception])
	s.count(d.ignored, src.labels, src.created, counts[metric.Ignored])
	s.count(d.occupied, src.labels, src.created, counts[metric.OccupiedPass])
	s.histogram(d.responseTime, src.labels, src.created, &of.latencies, counts[metric.RT], classic)
	s.gauge(d.inFlight, src.labels, float64(of.inFlight))
	waited := of.waits != cells{}
	if waited {
		s.histogram(d.waitTime, src.labels, src.created, &of.waits, counts[metric.Wait], classic)
	}
	if waited || of.waiting != 0 {
		s.gauge(d.waiting, src.labels, float64(of.waiting))
	}
	for _, r := range src.rules {
		r.collect(c, s)
	}
}

// collectRest adds what rules of a guard have counted that no other series shows.
func (c *Collector) collectRest(s *samples, guard string, sum resource.RuleTotals) {
	if sum == (resource.RuleTotals{}) {
		return
	}
	labels := c.rests[guard]
	if labels == nil {
		labels = c.ruleLabels(guard, resource.Other, resource.Other)
		c.rests[guard] = labels
	}
	s.count(c.descs.blocks, labels, nil, sum.Blocked)
	s.count(c.descs.wouldBlocks, labels, nil, sum.WouldBlock)
	s.count(c.descs.candidateWouldBlocks, labels, nil, sum.CandidateWouldBlock)
	if sum.Changes != 0 {
		s.count(c.descs.changes, labels, nil, sum.Changes)
	}
	if sum.Missing != 0 {
		s.count(c.descs.missing, labels, nil, sum.Missing)
	}
	if sum.Shed != (stat.ByCriticality{}) {
		c.collectShed(s, c.shedLabels(guard, resource.Other, resource.Other), sum.Shed)
	}
}
