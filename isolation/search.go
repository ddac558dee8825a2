package isolation

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/rule"
)

// search finds the limit of an adaptive rule on one resource, from one window of calls to the
// next. It is not safe for concurrent use.
//
// In each window some calls end. If they took longer, on average, than calls take without a
// queue, the limit falls, and otherwise it rises, by a tenth at most:
//
//	limit · (1 + Tolerance) · base / mean + √limit / 2
//
// The root is the queue that a limit of that size may have. This is a gradient limiter, as
// Netflix's concurrency-limits has one. What differs is base, the mean without a queue. It is
// measured: now and then, while the limit keeps calls out, it is halved for a moment. What then
// is still slow is not slow because of our queue, and to refuse calls would not help: that is the
// new base, and the limit goes on where it was. What is as much faster as there are fewer calls,
// was nothing but queue: the limit is halved once more. A base that is guessed, from the fastest
// calls of the past, drifts with the load, and is far from the mean if there are two sorts of
// calls, such as those that find something in a cache and those that do not.
//
// A limit that keeps few calls out does not fall: what they wait for then are bursts, and the
// servers have time for them. And a limit does not rise unless half of it is used. So there is
// little way to go when it is needed.
type search struct {
	rule  *Rule
	limit float64 // with its fraction
	base  float64 // nanoseconds; 0 if it is not known yet

	// While base is measured, whole is the limit to go back to, and queued the mean of calls
	// before it was halved last. Otherwise whole is 0.
	whole, queued float64
	once          bool  // it was halved once only
	began         int64 // when the measuring did
	due           int64 // when base is to be measured again

	hurry bool // the limit rises as fast as it may, since it is far from where it should be

	state string
	told  float64 // the limit when the state was told last
	calm  int     // windows since
}

const (
	minCalls   = 100                    // in a window
	minWindow  = 100 * time.Millisecond // its shortest length
	minMeasure = 500 * time.Millisecond // that of one in which base is measured

	maxStep  = 0.1  // by which the limit moves at most, but at first, or if base has grown by doubt
	approach = 0.05 // of the way from base to a smaller mean, while less than half of the limit is used

	// few is the share of calls that may be kept out for their bursts: a limit that keeps out no
	// more does not fall.
	few = 0.1

	// measureEvery is how often base is measured, and doubtEvery how often if calls take doubt
	// times as long as with the queue that is wanted. It takes a tenth of the time at most.
	measureEvery = 30 * time.Second
	doubtEvery   = 5 * time.Second
	doubt        = 2
	measureShare = 10
	// allQueue is how much of the mean is left with half of the limit if there still is a queue
	// then: a half, but for the noise. With a queue as it is wanted, three quarters are left.
	allQueue = 0.6

	// A change of the limit is told when it comes to so much; and that there was none, after so
	// many windows.
	tellAt    = 1.5
	tellAfter = 20
)

// The states of an adaptive rule.
const (
	steady    = "steady"
	rising    = "rising"
	falling   = "falling"
	measuring = "measuring"
	atFloor   = "floor"   // the limit is MinInFlight, and calls still take too long
	atCeiling = "ceiling" // the limit is MaxInFlight, and keeps calls out
	tooSlow   = "slow"    // calls take longer than MaxRT
	fixed     = "fixed"   // the rule is not adaptive any more
)

// window is what happened in one.
type window struct {
	now  int64
	mean float64 // nanoseconds that calls took
	most int64   // calls in flight
	kept float64 // the share of the calls that the limit kept out
}

func newSearch(r *Rule) *search {
	limit := float64(r.initialInFlight())
	return &search{rule: r, limit: limit, hurry: true, state: steady, told: limit}
}

// judge moves the limit after a window, and returns why the state is another one now; nothing
// if it is not.
func (s *search) judge(w *window) (why string) {
	before := s.state
	s.calm++
	switch {
	case s.rule.MaxRT > 0 && w.mean > float64(s.rule.MaxRT):
		s.whole = 0
		s.set(s.limit * (1 - maxStep))
		s.tell(tooSlow)
	case s.whole > 0:
		s.measured(w)
	default:
		s.move(w)
	}
	if s.state == before {
		return ""
	}
	return s.why(w)
}

// move is judge when nothing is special.
func (s *search) move(w *window) {
	if s.base == 0 {
		s.base, s.due = w.mean, w.now+int64(doubtEvery)
	}
	least, most := float64(s.rule.minInFlight()), float64(s.rule.MaxInFlight)
	next := s.limit
	switch {
	case float64(w.most) < s.limit/2:
		s.base += approach * min(0, w.mean-s.base)
	case w.kept >= few && s.limit > least && s.isDue(w):
		s.began, s.once = w.now, true
		s.whole, s.queued = s.limit, w.mean
		s.set(s.limit / 2)
		s.tell(measuring)
		return
	default:
		next = s.limit*(1+s.rule.tolerance())*s.base/w.mean + math.Sqrt(s.limit)/2
		if next = max(next, s.limit*(1-maxStep)); next <= s.limit*(1+maxStep) {
			s.hurry = false
		} else if !s.hurry {
			next = s.limit * (1 + maxStep)
		}
		if w.kept < few {
			next = max(next, s.limit)
		}
	}
	s.set(next)
	switch {
	case next < least:
		s.tell(atFloor)
	case s.limit == most && w.kept > 0:
		s.tell(atCeiling)
	case s.limit >= s.told*tellAt:
		s.tell(rising)
	case s.limit <= s.told/tellAt:
		s.tell(falling)
	case s.calm >= tellAfter:
		s.tell(steady)
	}
}

// isDue reports whether base is to be measured.
func (s *search) isDue(w *window) bool {
	if s.rule.Mode == rule.Shadow { // nothing changes by it
		return false
	}
	wanted := s.base * (1 + s.rule.tolerance()) / (1 - 1/(2*math.Sqrt(s.limit)))
	if w.mean > doubt*wanted {
		return w.now >= s.due-int64(measureEvery-doubtEvery)
	}
	return w.now >= s.due
}

// measured is the end of a window in which base was measured.
func (s *search) measured(w *window) {
	faster := w.mean < allQueue*s.queued
	// When the load has just changed, the first mean before is of calls with and without a
	// queue, and what comes after it only looks as if it had not become faster.
	surprise := s.once && w.mean > doubt*s.base
	if faster {
		s.whole = min(s.whole, 2*s.limit)
	}
	if (faster || surprise) && s.limit > float64(s.rule.minInFlight()) {
		if faster {
			s.whole = s.limit
		}
		s.once, s.queued = false, w.mean
		s.set(s.limit / 2)
		return
	}
	s.hurry = w.mean > doubt*s.base
	s.base = w.mean
	s.set(s.whole)
	s.whole = 0
	s.due = w.now + max(int64(measureEvery), measureShare*(w.now-s.began))
	s.tell(steady)
}

func (s *search) set(limit float64) {
	s.limit = min(max(limit, float64(s.rule.minInFlight())), float64(s.rule.MaxInFlight))
}

// tell notes the state, and with which limit.
func (s *search) tell(state string) { s.state, s.told, s.calm = state, s.limit, 0 }

func (s *search) why(w *window) string {
	text := fmt.Sprintf("limit %d; calls took %v on average", int64(s.limit), short(w.mean))
	switch {
	case s.state == tooSlow:
		return text + fmt.Sprintf(", and may take %v", s.rule.MaxRT)
	case s.base > 0:
		text += fmt.Sprintf(", %v without a queue", short(s.base))
	}
	return text
}

// short leaves out what nobody wants to read of a time.
func short(ns float64) time.Duration {
	unit := time.Duration(math.Pow(10, math.Floor(math.Log10(max(ns, 1)))-2))
	return time.Duration(ns).Round(cmp.Or(unit, 1))
}

// span returns how long the next window is at least, and from when on after its begin calls
// count in it that begin.
func (s *search) span() (settle, span time.Duration) {
	base := time.Duration(s.base)
	if s.whole > 0 {
		return base, base + max(minMeasure, 3*base)
	}
	return 0, max(minWindow, base)
}

// load takes over a changed rule.
func (s *search) load(r *Rule) {
	s.rule = r
	s.set(s.limit)
	s.whole = min(s.whole, float64(r.MaxInFlight))
}
