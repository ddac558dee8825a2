// Package pauses keeps the targets of outgoing calls that have asked to wait.
package pauses

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// Pauses are the targets that have asked to wait, for so long. All methods may be called by any
// number of goroutines at once.
type Pauses struct {
	maxPause   time.Duration
	maxTargets int
	count      atomic.Int64 // of until; read without the lock, so that calls are free while there is none

	mu    sync.Mutex // guards what is below
	until map[string]pause
}

type pause struct {
	end    time.Time // with its monotonic part
	status int
}

const (
	defaultMaxPause   = time.Hour
	defaultMaxTargets = 1000
)

// New returns pauses of at most maxPause each, of at most maxTargets at a time. Zero values are replaced by the
// defaults. If maxPause is negative, New returns nil. Invalid values are reported to fault.
func New(maxPause time.Duration, maxTargets int, fault func(format string, args ...any)) *Pauses {
	if maxPause > 0 && maxPause < time.Millisecond {
		fault("MaxPause is %v; want 1ms or more, 0 for %v, or less for none", maxPause, defaultMaxPause)
	}
	if maxTargets < 0 {
		fault("MaxTargets is %d; want 1 or more, or 0 for %d", maxTargets, defaultMaxTargets)
	}
	if maxPause < 0 {
		return nil
	}
	return &Pauses{
		maxPause: cmp.Or(maxPause, defaultMaxPause), maxTargets: cmp.Or(maxTargets, defaultMaxTargets), until: make(map[string]pause),
	}
}

// Check returns how long a target goes on asking to wait, and the status with which it began; 0
// if it does not.
func (p *Pauses) Check(target string) (rest time.Duration, status int) {
	if p.count.Load() == 0 {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pause, ok := p.until[target]
	if !ok {
		return 0, 0
	}
	if rest = time.Until(pause.end); rest > 0 {
		return rest, pause.status
	}
	p.remove(target)
	return 0, 0
}

// maxScanned is how many targets are looked at to make room, so that servers that answer 429
// under many names do not buy a scan for each.
const maxScanned = 8

// Add lets a target wait, unless wait is 0 or less. An answer to an older call does not end it sooner.
func (p *Pauses) Add(target string, status int, wait time.Duration) {
	if wait <= 0 {
		return
	}
	now := time.Now()
	added := pause{now.Add(min(wait, p.maxPause)), status}
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.until[target]
	switch {
	case known:
		if old.end.After(added.end) {
			return
		}
	case len(p.until) >= p.maxTargets:
		p.makeRoom(now)
	}
	p.until[target] = added
	p.count.Store(int64(len(p.until)))
}

// makeRoom takes out, of a few targets, those whose wait is over, or else the one whose
// is over soonest. The order in which a map is gone through is random.
func (p *Pauses) makeRoom(now time.Time) {
	soonest, left := "", maxScanned
	over := false
	for target, pause := range p.until {
		if left--; left < 0 {
			break
		}
		if !pause.end.After(now) {
			p.remove(target)
			over = true
		} else if soonest == "" || pause.end.Before(p.until[soonest].end) {
			soonest = target
		}
	}
	if !over {
		p.remove(soonest)
	}
}

func (p *Pauses) remove(target string) {
	delete(p.until, target)
	p.count.Store(int64(len(p.until)))
}
