package leapredis

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// due is a lease that ends while the window that was charged goes on.
type due struct {
	node  *node
	lease *lease
}

// returns gives back what is left of leases when they end. There is a timer only while
// there are leases, and a goroutine only while some are given back.
type returns struct {
	now  func() int64
	back func(due)     // one of them, by any goroutine
	gap  time.Duration // between one time and the next, so that many are given back together

	patience time.Duration // how long close gives back
	until    atomic.Int64  // nothing is given back any more from then on; 0: there is no such time

	mu     sync.Mutex // guards what is below
	queue  []due      // almost in the order of their ends: all last equally long
	timer  *time.Timer
	closed bool
	busy   sync.WaitGroup
}

const (
	atOnce = 16 // leases that are given back at a time
	// maxDue is how many leases are kept to be given back. If more are made than a slow
	// server takes back, the others end all the same: they count until the window is over.
	maxDue = 1 << 15
)

func (r *returns) add(d due) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) >= maxDue {
		return
	}
	r.queue = append(r.queue, d)
	if r.timer == nil {
		r.arm(0)
	}
}

// arm sets the timer for the first of the queue. The lock is held.
func (r *returns) arm(least time.Duration) {
	r.busy.Add(1)
	r.timer = time.AfterFunc(max(least, time.Duration(r.queue[0].lease.end-r.now())), r.run)
}

func (r *returns) run() {
	defer r.busy.Done()
	r.mu.Lock()
	now := r.now()
	count := 0
	for count < len(r.queue) && r.queue[count].lease.end <= now {
		count++
	}
	ended := append([]due(nil), r.queue[:count]...)
	r.queue = slices.Delete(r.queue, 0, count)
	r.mu.Unlock()

	r.giveBack(ended)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if len(r.queue) > 0 && !r.closed {
		r.arm(r.gap)
	}
}

func (r *returns) giveBack(ended []due) {
	var workers sync.WaitGroup
	next := make(chan due)
	for range min(atOnce, len(ended)) {
		workers.Go(func() {
			for d := range next {
				r.back(d)
			}
		})
	}
	for _, d := range ended {
		if until := r.until.Load(); until != 0 && r.now() >= until {
			break
		}
		next <- d
	}
	close(next)
	workers.Wait()
}

// close gives back what is left of all, as far as there is time.
func (r *returns) close() {
	r.until.Store(r.now() + int64(r.patience))
	r.mu.Lock()
	r.closed = true
	if r.timer != nil && r.timer.Stop() {
		r.busy.Done()
	}
	queue := r.queue
	r.queue = nil
	r.mu.Unlock()
	r.busy.Wait()
	r.giveBack(queue)
}
