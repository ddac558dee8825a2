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
//	rule_used{resource, guard, rule}             what is used of the threshold now, if the rule counts it
//	rule_info{resource, guard, rule, mode}       1
//	rule_state{resource, guard, rule, state}     1 for the state that it is in, 0 for the others
//	rule_changes_total{resource, guard, rule}    how often it went over to another
//	resources, guard_faults_total                of the gate
//	resources_without_series                     resources that none of these series count
//	evicted_resources_total                      resources that gave their place to another name
//	forgotten_resources_total                    those whose rules still remembered calls
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
// # Counters
//
// Counters are exact. The series of a resource are its own totals, and those of a rule are what the rule
// has counted on the resource. They end when the gate evicts the resource, or the rule is removed. If it
// returns, they start from zero, which Prometheus handles as a counter reset: rates are never negative.
// Calls between the last scrape and the end of a resource are lost, but a resource is evicted only after
// a minute without calls, so scrapes at least once a minute see them all. If a name returns and exceeds its
// old count before the next scrape, only created timestamps show that the series has started again.
//
// The resource "other" has the calls that the gate's own resource of that name has served. Resources
// beyond Config.MaxResources have no series; resources_without_series tells how many there are.
//
// The two of waits are there for resources in which a call has waited. Response times begin
// when a wait is over: what a caller saw is both.
//
// The series of resources have created timestamps.
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
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/leapgate-go/leapgate"
)

// Collector exports one gate. It may be registered in several registries, and several
// collectors may export one gate; in one registry, collectors must differ in Config.Gate.
// Its methods may be called by any number of goroutines at once.
type Collector struct {
	gate        *leapgate.Gate
	cfg         Config
	gateLabels  []*dto.LabelPair
	descs       *descs
	limiters    []*limiter
	ruleSources []*ruleSource
	classic     *classicBuckets // nil with NativeOnly

	mu       sync.Mutex // guards what is below: one reading at a time
	readings int64
	sources  map[string]*source // of the resources that were in the last reading and have series
	values   map[string]bool    // of the label "resource" that they have
	unnamed  int                // of them, those that no rule names
	sizes    [3]int             // of the last samples, to make room for as many
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
		gateLabels: pairs("gate", cfg.Gate),
		sources:    make(map[string]*source),
		values:     make(map[string]bool),
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
	c.readings++
	s := &samples{
		counters:   make([]counter, 0, c.sizes[0]),
		gauges:     make([]gauge, 0, c.sizes[1]),
		histograms: make([]histogram, 0, c.sizes[2]),
	}
	left := 0
	for i := range all { // by name, so that the registry has little to sort
		if src := c.source(&all[i]); src != nil {
			c.collect(s, src, &all[i])
		} else {
			left++
		}
	}
	c.endSeries()
	gate := c.gateLabels
	s.gauge(c.descs.resources, gate, float64(len(all)))
	s.gauge(c.descs.leftOut, gate, float64(left))
	s.count(c.descs.guardFaults, gate, nil, c.gate.GuardFaults())
	evictions := c.gate.Evictions()
	s.count(c.descs.evicted, gate, nil, evictions.Evicted)
	s.count(c.descs.forgotten, gate, nil, evictions.Forgotten)
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
