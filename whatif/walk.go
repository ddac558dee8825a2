package whatif

import (
	"context"
	"iter"
	"time"
)

// walker makes calls that may have to wait, one after the other, in a goroutine of its own that
// runs only while the lane resumes it: so no two calls run at once, and everything has one
// order. It is the context of its call.
type walker struct {
	context.Context //nolint:containedctx // it is one
	lane            *lane
	call            *call
	err             error // of the call, when it is over
	over            bool
	parked          bool
	woken           bool
	gone            bool // nobody resumes it any more
	yield           func(struct{}) bool
	next            func() (struct{}, bool)
	stop            func()
}

// walkers are those of a lane.
type walkers struct {
	all   []*walker
	idle  []*walker
	ready []*walker // that were woken
}

func newWalker(l *lane) *walker {
	w := &walker{Context: background, lane: l}
	w.next, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		for w.yield = yield; ; {
			w.err = l.enter(w, w.call)
			w.over = true
			if w.gone || !yield(struct{}{}) {
				return
			}
		}
	})
	return w
}

// begin lets a call go as far as it comes without waiting.
func (ws *walkers) begin(l *lane, c *call) {
	var w *walker
	if last := len(ws.idle) - 1; last >= 0 {
		w = ws.idle[last]
		ws.idle = ws.idle[:last]
	} else {
		w = newWalker(l)
		ws.all = append(ws.all, w)
	}
	w.call, c.walker = c, w
	ws.resume(w)
}

// resume lets a call go on as far as it comes.
func (ws *walkers) resume(w *walker) {
	w.over, w.parked, w.woken = false, false, false
	w.call.turn++ // the end of its wait is not to come any more
	w.next()
	if !w.over {
		return
	}
	c := w.call
	w.call, c.walker = nil, nil
	ws.idle = append(ws.idle, w)
	w.lane.entered(c, w.err)
}

// settle lets all go on that were woken.
func (ws *walkers) settle() {
	for len(ws.ready) > 0 {
		w := ws.ready[0]
		ws.ready = ws.ready[1:]
		if w.parked && w.woken {
			ws.resume(w)
		}
	}
}

func (ws *walkers) stop() {
	for _, w := range ws.all {
		w.gone = true
		w.stop()
	}
}

// Wait implements clock.Waiter.
func (w *walker) Wait(d time.Duration) error {
	if w.gone {
		return context.Canceled
	}
	w.lane.plan(w.call, w.lane.now+int64(d), waits)
	w.parked = true
	if !w.yield(struct{}{}) {
		return context.Canceled
	}
	return nil
}

// Wake implements clock.Waiter.
func (w *walker) Wake() {
	if w.parked && !w.woken {
		w.woken = true
		w.lane.walkers.ready = append(w.lane.walkers.ready, w)
	}
}
