package rulefile

import (
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"

	"github.com/fsnotify/fsnotify"
)

// maxReads is how many times in a Settle the path is read at most.
const maxReads = 10

// listen asks the system to tell of changes. Without that there is the poll.
func (w *Watcher) listen() (<-chan fsnotify.Event, <-chan error) {
	notices, err := fsnotify.NewWatcher()
	if err != nil {
		w.cfg.Logger.Warn("leapgate: changes of the rule file will not be heard of; it is read regularly",
			slog.String("path", escape.Text(w.cfg.Path)), slog.String("error", escape.Text(err.Error())),
			slog.Duration("every", w.cfg.Poll))
		return nil, nil
	}
	w.folders = newFolders(w.cfg.Path, notices)
	return notices.Events, notices.Errors
}

// run looks at the path when something was heard of it, until it has come to rest, and now and
// then, until stop is closed.
func (w *Watcher) run(notices <-chan fsnotify.Event, faults <-chan error) {
	defer close(w.ended)
	if w.folders != nil {
		defer func() { _ = w.folders.close() }() // there is nothing to be done about it
	}
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	// The first look is at once: nobody has listened since the rules were loaded.
	next := time.NewTimer(0)
	defer next.Stop()
	var last time.Time // when it was looked last
	for {
		select {
		case <-w.stop:
			return
		case notice, open := <-notices:
			if !open {
				notices = nil
			}
			if !open || !w.folders.concerns(notice.Name) {
				continue
			}
		case _, open := <-faults: // notices were lost
			if !open {
				faults = nil
				continue
			}
		case <-poll.C:
		case <-next.C:
			last = time.Now()
			if again := w.look(); again > 0 {
				next.Reset(again)
			}
			continue
		}
		next.Reset(time.Until(last.Add(w.cfg.Settle / maxReads)))
	}
}
