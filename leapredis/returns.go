package leapredis

import (
	"sync"
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

	mu     sync.Mutex // guards what is below
	queue  []due      // almost in the order of their ends: all last equally long
	timer  *time.Timer
	closed bool
	busy   sync.WaitGroup
}

// atOnce is how many leases are given back at a time.
const atOnce = 16

func (r *returns) add(d due) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
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
	r.queue = append(r.queue[:0], r.queue[count:]...)
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
		next <- d
	}
	close(next)
	workers.Wait()
}

// close gives back what is left of all, and returns when that is done.
func (r *returns) close() {
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
