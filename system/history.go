package system

import "time"

const (
	second   = int64(time.Second)
	keeps    = 60 // seconds
	minCalls = 50 // a second
)

// history is how many calls succeeded in each second lately, and how long they took.
type history struct {
	seconds [keeps]busy
	at      int

	began, mark int64 // of the second that runs
}

// busy is a second in which there were calls enough.
type busy struct {
	ended int64
	rate  float64 // per second
	rt    float64 // mean, in seconds
}

// turn ends a second, if it is over at now. ended is the word of what has ended by now.
func (h *history) turn(now, ended int64) {
	took := now - h.began
	if took < second {
		return
	}
	n, seconds := since(ended, h.mark)
	h.began, h.mark = now, ended
	if rate := float64(n) * float64(second) / float64(took); rate >= minCalls {
		h.seconds[h.at] = busy{now, rate, seconds / float64(n)}
		h.at = (h.at + 1) % keeps
	}
}

// estimate returns the best rate and the least mean response time of the last minute. It
// reports false if no second had calls enough.
func (h *history) estimate(now int64) (rate, rt float64, known bool) {
	for _, s := range h.seconds {
		if s.rate == 0 || now-s.ended > keeps*second {
			continue
		}
		if rate = max(rate, s.rate); !known || s.rt < rt {
			rt = s.rt
		}
		known = true
	}
	return rate, rt, known
}
