package rulefile

import (
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"

	"github.com/fsnotify/fsnotify"
)

// patience is how many times Settle a path that does not come to rest is waited for, before
// it is read all the same. What is read is loaded only if it is the same twice.
const patience = 10

// listen asks the system to tell of changes. Without that there is the poll.
func (w *Watcher) listen() (<-chan fsnotify.Event, <-chan error) {
	notices, err := fsnotify.NewWatcher()
	if err != nil {
		w.cfg.Logger.Warn("leapgate: changes of the rule file will not be heard of; it is read regularly",
			slog.String("path", escape.Text(w.cfg.Path)), slog.String("error", escape.Text(err.Error())),
			slog.Duration("every", w.cfg.Poll))
		return nil, nil
	}
	w.trail = newTrail(w.cfg.Path, notices)
	return notices.Events, notices.Errors
}

// run looks at the path when something was heard of it and it has come to rest, and now and
// then, until stop is closed.
func (w *Watcher) run(notices <-chan fsnotify.Event, faults <-chan error) {
	defer close(w.ended)
	if w.trail != nil {
		defer func() { _ = w.trail.close() }() // there is nothing to be done about it
	}
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	// The first look is at once: nobody has listened since the rules were loaded.
	settle := time.NewTimer(0)
	defer settle.Stop()
	waiting := true
	var deadline time.Time
	for {
		heard := false
		select {
		case <-w.stop:
			return
		case notice, open := <-notices:
			if !open {
				notices = nil
			}
			heard = open && w.trail.concerns(notice.Name)
		case _, open := <-faults: // notices were lost
			if !open {
				faults = nil
			}
			heard = open
		case <-settle.C:
			if waiting = w.look(); waiting {
				deadline = time.Now().Add(patience * w.cfg.Settle)
				settle.Reset(w.cfg.Settle)
			}
		case <-poll.C:
			if !waiting {
				waiting = true
				deadline = time.Now()
				settle.Reset(0)
			}
		}
		if heard {
			if !waiting {
				waiting = true
				deadline = time.Now().Add(patience * w.cfg.Settle)
			}
			settle.Reset(min(w.cfg.Settle, time.Until(deadline)))
		}
	}
}
