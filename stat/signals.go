package stat

// Signals are what a sampler knows of the load of the machine at one time. It is a plain
// value. Package load has a sampler, and says how each is read.
type Signals struct {
	// Seq counts the samples: where it differs, there is a new sample. It is 0 before the
	// first.
	Seq uint64

	// CPU is the share of the processors which the container, or else the process, may use
	// that it does use: 0.75 is three quarters of it. It may be above 1 for a moment.
	CPU Signal
	// Throttled is the share of the periods of the container's quota in which it ran out: 0 to 1.
	Throttled Signal
	// Pressure is the share of the time in which something that could run waited for a
	// processor: 0 to 1.
	Pressure Signal
	// SchedLatency is how long goroutines that could run waited until they did, in seconds:
	// 99 % of them waited less.
	SchedLatency Signal

	// Processors is how many processors CPU is a share of, such as 0.5; 0 if it is not known.
	Processors float64
}

// Signal is one of the [Signals].
type Signal struct {
	Value float64 // smoothed; what rules hold against their bounds
	Raw   float64 // of the last sample alone
	Known bool    // else both are 0
}
