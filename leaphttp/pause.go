package leaphttp

import (
	"sync"
	"sync/atomic"
	"time"
)

// pauses are the targets that have asked to wait, for so long.
type pauses struct {
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

func newPauses(maxPause time.Duration, maxTargets int) *pauses {
	return &pauses{maxPause: maxPause, maxTargets: maxTargets, until: make(map[string]pause)}
}

// check returns the error of a call to a target that has asked to wait.
func (p *pauses) check(target string) error {
	if p.count.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pause, ok := p.until[target]
	if !ok {
		return nil
	}
	rest := time.Until(pause.end)
	if rest > 0 {
		return &RefusedError{Target: target, Status: pause.status, RetryAfter: rest}
	}
	p.remove(target)
	return nil
}

// maxScanned is how many targets are looked at to make room, so that servers that answer 429
// under many names do not buy a scan for each.
const maxScanned = 8

// add lets a target wait. An answer to an older call does not end it sooner.
func (p *pauses) add(target string, status int, wait time.Duration) {
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
func (p *pauses) makeRoom(now time.Time) {
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

func (p *pauses) remove(target string) {
	delete(p.until, target)
	p.count.Store(int64(len(p.until)))
}
