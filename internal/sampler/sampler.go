// Package sampler reads something at regular times, on goroutines of its own, and keeps going
// whatever the reading does: it may fail, panic, end its goroutine and hang.
package sampler

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// StaleAfter times Every is how long a good reading is good for. One or two
	// failures do not make a rule change its mind to and fro.
	StaleAfter = 5

	// Patience is how long Start and Close wait for a reading. One takes less than a
	// tenth of a millisecond, so that what takes this long does not come soon.
	Patience = time.Second
)

// Config says what is read, and how often.
type Config[T any] struct {
	// Every is the time from one reading to the next: Min to Max; 0 is Default.
	Every, Min, Max, Default time.Duration
	// Read reads. It is not called again before it has returned.
	Read func() (T, error)
	// Take gets each good reading, in their order. None comes after Close.
	Take func(T)
	// Forget is called when there has been no good reading for StaleAfter × Every, and by Close.
	// Neither it nor Take may block.
	Forget func()
	// What is read: "memory". It stands in the log.
	What   string
	Logger *slog.Logger // nil is slog.Default()
	// BadConfig is what the error of Start is.
	BadConfig error
}

// Sampler reads. Make one with [Start].
type Sampler[T any] struct {
	cfg    Config[T]
	read   func() // the method; a value of it made anew at every reading would be on the heap
	causes Causes // only a reading touches them, and there is one at a time

	closing sync.Once
	stop    chan struct{}   // closed by Close
	stopped chan struct{}   // closed by run, which ends
	done    chan reading[T] // has room for the one reading there is
	pending bool            // a reading has begun and not been received; run's until stopped
}

type reading[T any] struct {
	value T
	err   error
}

// Start begins to sample. It reads once before it returns, unless that takes longer than 1 s.
// The error is that Every is wrong, and nothing was started then.
func Start[T any](cfg Config[T]) (*Sampler[T], error) {
	if cfg.Every == 0 {
		cfg.Every = cfg.Default
	}
	if cfg.Every < cfg.Min || cfg.Every > cfg.Max {
		return nil, fmt.Errorf("%w: Every is %v; want %v to %v, or 0 for %v", cfg.BadConfig, cfg.Every, cfg.Min, cfg.Max, cfg.Default)
	}
	s := &Sampler[T]{
		cfg:     cfg,
		causes:  Causes{Logger: cfg.Logger},
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		done:    make(chan reading[T], 1),
	}
	s.read = s.readOnce
	s.begin()
	if r, ok := s.wait(); ok {
		s.take(r)
	}
	go s.run()
	return s, nil
}

// Close ends the sampler: what was read is forgotten, and when Close returns its goroutines are
// gone. If a reading hangs for another second, it reports false: its goroutine ends when the
// reading returns. Closing again does nothing but to look whether it has.
func (s *Sampler[T]) Close() (ended bool) {
	s.closing.Do(func() { close(s.stop) })
	<-s.stopped // soon: run calls nothing that could block
	if !s.pending {
		return true
	}
	r, ok := s.wait()
	if ok {
		s.done <- r // for the next that closes
	}
	return ok
}

// wait returns the reading that has begun, if it comes soon.
func (s *Sampler[T]) wait() (r reading[T], ok bool) {
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case r = <-s.done:
		return r, true
	case <-timer.C:
		return r, false
	}
}

func (s *Sampler[T]) run() {
	defer close(s.stopped)
	ticker := time.NewTicker(s.cfg.Every)
	defer ticker.Stop()
	stale := time.NewTimer(StaleAfter * s.cfg.Every)
	defer stale.Stop()
	for {
		select {
		case <-s.stop:
			s.cfg.Forget()
			return
		case <-ticker.C:
			if !s.pending {
				s.begin()
			}
		case r := <-s.done:
			if s.take(r) {
				stale.Reset(StaleAfter * s.cfg.Every)
			}
		case <-stale.C:
			s.cfg.Forget()
		}
	}
}

// begin begins a reading, on a goroutine of its own because it may hang.
func (s *Sampler[T]) begin() {
	s.pending = true
	go s.read()
}

// take takes a reading, if it is good.
func (s *Sampler[T]) take(r reading[T]) bool {
	s.pending = false
	if r.err != nil {
		return false
	}
	s.cfg.Take(r.value)
	return true
}

// readOnce is one reading. All that is not this package's code, and may hang, runs here: Read
// and the logger.
func (s *Sampler[T]) readOnce() {
	r := reading[T]{err: errors.New("the reader has ended its goroutine")} // as runtime.Goexit does
	defer func() { s.done <- r }()
	defer func() {
		if cause := recover(); cause != nil {
			r.err = fmt.Errorf("the reader panicked: %v", cause)
		}
		if r.err != nil {
			s.causes.Log(slog.LevelWarn, "leapgate: a reading of the "+s.cfg.What+" failed; each cause is logged once",
				r.err, s.cfg.What+"_unknown_after", StaleAfter*s.cfg.Every)
		}
	}()
	r.value, r.err = s.cfg.Read()
}
