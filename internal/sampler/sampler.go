// Package sampler reads a figure of the machine at regular intervals, on a goroutine of its own.
package sampler

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// StaleAfter times Every is the age at which the last good reading no longer counts. One or two failures do not make
// a rule change its mind to and fro.
const StaleAfter = 5

// Config says what is read, and how often.
type Config[T any] struct {
	// Every is the time from one reading to the next, from Min to Max. If it is zero, Default is used.
	Every, Min, Max, Default time.Duration
	// Read returns the figure.
	Read func() (T, error)
	// Take is called with each good reading, in order. It is not called after Close.
	Take func(T)
	// Forget is called when there has been no good reading for StaleAfter × Every, also if Read does not return,
	// and by Close. It may be called at the same time as Take.
	Forget func()
	// What names the figure in the log: "memory".
	What   string
	Logger *slog.Logger // If it is nil, slog.Default is used.
	// BadConfig is wrapped by the error of Start.
	BadConfig error
}

// Sampler reads a figure until it is closed. Create one with [Start].
type Sampler[T any] struct {
	cfg    Config[T]
	causes Causes
	stale  *time.Timer

	closing sync.Once
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed by run when it returns
}

// Start reads the figure once, and goes on reading it until Close. It returns an error if Every is out of range.
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
		stale:   time.AfterFunc(StaleAfter*cfg.Every, cfg.Forget),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.sample()
	go s.run()
	return s, nil
}

// Close stops the sampler and forgets its figure. It waits for a reading in progress.
func (s *Sampler[T]) Close() {
	s.closing.Do(func() { close(s.stop) })
	<-s.stopped
}

func (s *Sampler[T]) run() {
	defer close(s.stopped)
	ticker := time.NewTicker(s.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			s.stale.Stop()
			s.cfg.Forget()
			return
		case <-ticker.C:
			s.sample()
		}
	}
}

func (s *Sampler[T]) sample() {
	v, err := s.cfg.Read()
	if err != nil {
		s.causes.Log(slog.LevelWarn, "leapgate: a reading of the "+s.cfg.What+" failed; each cause is logged once",
			err, s.cfg.What+"_unknown_after", StaleAfter*s.cfg.Every)
		return
	}
	s.cfg.Take(v)
	s.stale.Reset(StaleAfter * s.cfg.Every)
}
