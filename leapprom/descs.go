package leapprom

import "github.com/prometheus/client_golang/prometheus"

type descs struct {
	// by resource
	entries, exceptions, ignored, occupied, responseTime, inFlight, waitTime, waiting *prometheus.Desc
	// by resource, guard and rule
	blocks, wouldBlocks, candidateWouldBlocks, missing, shed *prometheus.Desc
	mode, threshold, effective, candidate, interval, used    *prometheus.Desc
	state, changes                                           *prometheus.Desc
	// of the gate
	resources, leftOut, guardFaults, evicted, forgotten *prometheus.Desc
	// of the machine
	cpu, throttled, pressure, schedLatency, processors *prometheus.Desc
	// by source of rules
	lastLoadSuccessful, lastLoadTimestamp *prometheus.Desc
	// by limiter
	decisions, wouldRefuse, degraded, expiredKeys, evictedKeys, placesTaken, crowded, coarse *prometheus.Desc
	away, keys, maxKeys, bytes, limit, window                                                *prometheus.Desc

	all []*prometheus.Desc
}

func newDescs(gate string) *descs {
	d := new(descs)
	of := func(name, help string, labels ...string) *prometheus.Desc {
		desc := prometheus.NewDesc("leapgate_"+name, help, labels, prometheus.Labels{"gate": gate})
		d.all = append(d.all, desc)
		return desc
	}
	d.entries = of("entries_total",
		"Calls into a resource, by what became of them: pass or block. A call with a count of n counts n times.",
		"resource", "result")
	d.exceptions = of("exceptions_total", "Completed calls that failed.", "resource")
	d.ignored = of("ignored_total", "Completed calls that say nothing about the resource: their callers gave up, for instance.", "resource")
	d.occupied = of("occupied_passes_total", "Calls with priority that were admitted by borrowing from a later bucket.", "resource")
	d.responseTime = of("response_time_seconds",
		"Response times of completed calls, failed or not. Its count is the number of completed calls.", "resource")
	d.inFlight = of("entries_in_flight", "Calls that were admitted and have not completed.", "resource")
	d.waitTime = of("wait_time_seconds",
		"How long calls waited before they began, or gave up; of those that waited. Response times begin after that.", "resource")
	d.waiting = of("entries_waiting", "Calls that wait before they begin.", "resource")

	d.blocks = of("blocks_total",
		"Calls that a rule has blocked.",
		"resource", "guard", "rule")
	d.wouldBlocks = of("would_blocks_total", "Calls that a rule in mode shadow would have blocked.", "resource", "guard", "rule")
	d.candidateWouldBlocks = of("candidate_would_blocks_total",
		"Calls that the candidate threshold of a rule would have blocked.", "resource", "guard", "rule")
	d.missing = of("rule_missing_arguments_total",
		"Calls without the argument that a rule is about. If all calls are, the rule does nothing.",
		"resource", "guard", "rule")
	d.shed = of("rule_shed_total", "Calls that a rule has blocked which goes by criticality.", "resource", "guard", "rule", "criticality")
	d.mode = of("rule_info", "1, for the mode of a rule: enforce, shadow or off.", "resource", "guard", "rule", "mode")
	d.threshold = of("rule_threshold", "Threshold of a rule, as it was loaded.", "resource", "guard", "rule")
	d.effective = of("rule_effective_threshold",
		"Threshold of a rule that holds now: less than the threshold while warming up, or short of memory.",
		"resource", "guard", "rule")
	d.candidate = of("rule_candidate_threshold", "Candidate threshold of a rule, if it has one.", "resource", "guard", "rule")
	d.interval = of("rule_interval_seconds",
		"Time in which the threshold of a rule is admitted; 0 for rules without, such as those on calls in flight.",
		"resource", "guard", "rule")
	d.used = of("rule_used",
		"What of the threshold that holds now is used: calls that the window of a flow rule holds, or that are in flight by an isolation rule.",
		"resource", "guard", "rule")
	d.state = of("rule_state", "1 for the state that a rule is in, and 0 for each other one that it can be in.",
		"resource", "guard", "rule", "state")
	d.changes = of("rule_changes_total", "How often a rule went over from one state to another.", "resource", "guard", "rule")

	d.resources = of("resources", "Resources that the gate keeps, the resource other included.")
	d.leftOut = of("resources_without_series", "Resources that have no series, since there are more than MaxResources of the collector.")
	d.guardFaults = of("guard_faults_total", "Panics of guards that the program brought, and of its OnChange and Load.")
	d.evicted = of("evicted_resources_total", "Resources that gave their place to another name.")
	d.forgotten = of("forgotten_resources_total",
		"Evicted resources whose rules still remembered calls: rules that remember more than an hour.")

	d.cpu = of("load_cpu_ratio", "Share that is used of the processors that may be used, smoothed with a half-life of 1 s.")
	d.throttled = of("load_throttled_ratio", "Share of the periods of the quota in which it ran out, smoothed.")
	d.pressure = of("load_pressure_ratio", "Share of the time in which something waited for a processor, smoothed.")
	d.schedLatency = of("load_scheduling_latency_seconds", "99th percentile of how long goroutines waited to run, smoothed.")
	d.processors = of("load_processors", "Processors that may be used, on average.")

	d.lastLoadSuccessful = of("rules_last_load_successful",
		"1 if the rules that a source holds now are the active ones, 0 if it is no good, or gone, and older ones stay.", "source")
	d.lastLoadTimestamp = of("rules_last_load_timestamp_seconds",
		"When rules were last loaded from a source, in seconds since 1970; 0 if never.", "source")

	d.decisions = of("limiter_decisions_total", "Answers of a limiter: allowed or refused.", "limiter", "answer")
	d.wouldRefuse = of("limiter_would_refuse_total", "Calls that a limiter admitted only because it is in mode shadow.", "limiter")
	d.degraded = of("limiter_degraded_decisions_total",
		"Answers of a limiter without the state that is shared with other processes.", "limiter")
	d.expiredKeys = of("limiter_expired_keys_total", "Keys that were cleared away when they held nothing any more.", "limiter")
	d.evictedKeys = of("limiter_evicted_keys_total", "Keys that were forgotten although they held something.", "limiter")
	d.crowded = of("limiter_crowded_calls_total", "Calls of new keys for which there was no place.", "limiter")
	d.coarse = of("limiter_coarse_admissions_total",
		"Admissions that were joined with the next because the memory for times was used up.", "limiter")
	d.away = of("limiter_away", "1 if the state that is shared with other processes cannot be reached, else 0.", "limiter")
	d.keys = of("limiter_keys", "Keys that are kept.", "limiter")
	d.maxKeys = of("limiter_max_keys", "Keys that are kept at most.", "limiter")
	d.placesTaken = of("limiter_in_flight", "Calls that a limiter of calls in flight has admitted and that have not ended.", "limiter")
	d.bytes = of("limiter_log_bytes", "Memory in which a limiter keeps times, besides the first four of each key.", "limiter")
	d.limit = of("limiter_limit", "What a limiter admits for each key in its window, where the key has no limit of its own.", "limiter")
	d.window = of("limiter_window_seconds", "Window of a limiter.", "limiter")
	return d
}
