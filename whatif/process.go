package whatif

import (
	"context"
	"iter"
	"time"
)

// process enters a gate for one call at a time, in a coroutine that runs only while the simulator resumes it. So
// calls can wait, and yet everything happens in one order. It is the context of its call.
type process struct {
	context.Context //nolint:containedctx // it is one
	simulator       *simulator
	call            *call
	waiting, woken  bool
	stopped         bool
	yield           func(struct{}) bool
	next            func() (struct{}, bool)
	stop            func()
}

func newProcess(s *simulator) *process {
	p := &process{Context: context.Background(), simulator: s}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		for p.yield = yield; ; {
			err := s.enter(p, p.call)
			if p.stopped {
				return
			}
			c := p.call
			p.call, c.process = nil, nil
			s.idle = append(s.idle, p)
			s.entered(c, err)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return p
}

// resume continues a call until it waits or is over.
func (p *process) resume() {
	p.waiting, p.woken = false, false
	p.next()
}

// Wait implements clock.Waiter.
func (p *process) Wait(d time.Duration) error {
	if !p.stopped {
		p.simulator.schedule(p.call, p.simulator.now+int64(d), waiting)
		if p.waiting = true; p.yield(struct{}{}) {
			return nil
		}
	}
	return context.Canceled
}

// Wake implements clock.Waiter.
func (p *process) Wake() {
	if p.waiting && !p.woken {
		p.woken = true
		p.simulator.ready = append(p.simulator.ready, p)
	}
}
