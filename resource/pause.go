package resource

import "math/bits"

// pauser is a [Finisher] that looks at calls in flight. A pause is not part of a call's response time.
type pauser interface {
	// Pause is called when a call that began at start pauses at now.
	Pause(now, start int64)
	// Resume is called when the call continues at now. From then on it counts as one that began at to.
	Resume(now, start, to int64)
}

// Pause excludes the time until Resume from the call's response time. It is for a call that waits for its own caller:
// for the rest of a request's body, or for the caller to read the answer. Otherwise slow callers make the resource
// look slow. Pause returns the argument of Resume, which must be called before Exit. After Exit, both do nothing.
func (e *Entry) Pause() (at int64) {
	if e.set == nil {
		return 0
	}
	at = e.set.registry.clock.Now()
	e.pausers(func(p pauser) { p.Pause(at, e.start) })
	return at
}

// Resume ends a pause.
func (e *Entry) Resume(at int64) {
	if e.set == nil {
		return
	}
	start, now := e.start, e.set.registry.clock.Now()
	e.start += max(0, now-at)
	e.pausers(func(p pauser) { p.Resume(now, start, e.start) })
}

// pausers calls f with every check that finish will tell of the end and that is a pauser.
func (e *Entry) pausers(f func(pauser)) {
	if !e.set.told && e.word < 1<<tookShift {
		return
	}
	for _, c := range e.set.finish {
		if p, ok := c.(pauser); ok {
			f(p)
		}
	}
	for took := uint16(e.word >> tookShift); took != 0; took &= took - 1 {
		if p, ok := e.set.finishIf[bits.TrailingZeros16(took)].(pauser); ok {
			f(p)
		}
	}
}
