package rulefile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// ErrClosed is the error of [Watcher.Reload] after Close.
var ErrClosed = errors.New("leapgate: the rule file's watcher is closed")

// Watcher keeps the rules of a gate those of a file or a folder. Make one with [Watch], and
// end it with [Watcher.Close]. Its methods may be called by any number of goroutines at
// once.
type Watcher struct {
	cfg     Config
	program *program
	files   func(path string) (*content, error) // readFiles, except in tests

	changes   chan struct{} // one waits; closed by Close
	stop      chan struct{} // closed when Close begins
	ended     chan struct{} // closed when the goroutine has ended
	closeOnce sync.Once

	saving  sync.Mutex // one Save at a time; taken before loading
	loading sync.Mutex // one load at a time; guards the rest of this block
	closed  bool
	loaded  bool     // whether active is set
	active  string   // the key of the content loaded last
	seen    string   // the key of the content read last
	polls   int      // the number of polls
	changed int      // the number of polls in a row that found other content; 0 after a load
	logged  string   // the last error logged, or "" if it no longer holds
	news    []func() // log calls to make once loading is unlocked

	mu     sync.Mutex // guards status and file; nothing is called under it
	status Status
	file   File // what is active
}

// Watch loads the rules of a file or a folder into a gate. Until Close, it reads the path once per Config.Poll and
// loads it again whenever the content has changed: a file that is written in place or replaced by a rename, a folder
// to which a file is added, a symbolic link that points elsewhere, as in a Kubernetes ConfigMap.
//
// If the path is missing, cannot be read or contains an error, nothing changes: the gate keeps the last good rules,
// and the error is logged and reported by [Watcher.Status]. Removing a file from a folder removes its rules, as long
// as other rule files are left.
//
// Changed content is loaded when two polls in a row find it, so a file that is being written is not loaded halfway:
// half of a YAML file can be valid, such as "threshold: 2" before the 4 is written. A writer that pauses for longer
// than Config.Poll must write to another file in the same folder and rename it. Content that differs in every poll is
// not loaded and, after ten polls, reported as an error.
//
// If there are no good rules to begin with, Watch returns the error and starts nothing, unless cfg.Optional is set.
func Watch(cfg Config) (*Watcher, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w := newWatcher(cfg)
	if err := w.Reload(); err != nil && !cfg.Optional {
		return nil, err
	}
	go w.run()
	return w, nil
}

func newWatcher(cfg Config) *Watcher {
	return &Watcher{
		cfg:     cfg,
		program: newProgram(&cfg),
		files:   readFiles,
		changes: make(chan struct{}, 1),
		stop:    make(chan struct{}),
		ended:   make(chan struct{}),
		status:  Status{Path: cfg.Path},
	}
}

// Source returns Config.Path, which is the Source of the rules that are loaded.
func (w *Watcher) Source() string { return w.cfg.Path }

// LastLoad returns when the active rules were given to the gate, zero if none were yet, and
// why they are not what the path holds now, nil if they are: Since and Err of the [Status].
func (w *Watcher) LastLoad() (at time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Since, w.status.Err
}

// Status returns what is active and since when, and what is wrong, if anything is.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := w.status
	status.Files, status.Rules = slices.Clone(status.Files), maps.Clone(status.Rules)
	return status
}

// Rules returns copies of the active rules, as they are in the files but for their Source: those
// that were given to the gate last.
func (w *Watcher) Rules() leapgate.Rules {
	w.mu.Lock()
	defer w.mu.Unlock()
	return copied(w.file.Rules)
}

// copied returns rules whose lists are others.
func copied(rules leapgate.Rules) leapgate.Rules {
	var all kinds.Rules
	for _, k := range allKinds {
		k.Append(&all, (*kinds.Rules)(&rules))
	}
	return leapgate.Rules(all)
}

// Changes receives when the Status has changed since it last did: rules were loaded,
// or refused. Close closes it. It is one channel, for one reader.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Reload reads the path and loads its content, unless it is the content loaded last. It does not wait for a second
// reading. The returned error is also in the Status, except for [ErrClosed], which Reload returns after Close.
func (w *Watcher) Reload() error {
	return w.locked(func() error {
		c, err := w.read()
		if errors.Is(err, ErrClosed) {
			return err
		}
		return w.load(c, err)
	})
}

// Close stops the watcher and waits for a load in progress: no rules are given to the gate after Close returns, and
// the active ones stay. Close does not wait for a file system that does not answer. The error is always nil. Further
// calls do nothing. A handler of Config.Logger must not call Close.
func (w *Watcher) Close() error {
	w.closeOnce.Do(func() {
		close(w.stop)
		<-w.ended
		w.loading.Lock()
		defer w.loading.Unlock()
		w.closed = true
		close(w.changes)
	})
	return nil
}

// locked calls f with the lock of loads held, and logs what came of it afterwards: the handler
// of the logger belongs to the program, and may call the watcher.
func (w *Watcher) locked(f func() error) error {
	var news []func()
	err := func() error {
		w.loading.Lock()
		defer w.loading.Unlock()
		defer func() { news, w.news = w.news, nil }()
		return f()
	}()
	for _, log := range news {
		log()
	}
	return err
}

// log keeps a record for when the lock is free.
func (w *Watcher) log(level slog.Level, message string, attrs ...slog.Attr) {
	attrs = append([]slog.Attr{slog.String("path", escape.Text(w.cfg.Path))}, attrs...)
	w.news = append(w.news, func() { w.cfg.Logger.LogAttrs(context.Background(), level, message, attrs...) })
}

func (w *Watcher) run() {
	defer close(w.ended)
	ticker := time.NewTicker(w.cfg.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
			_ = w.locked(w.poll) // the error is in the Status
		}
	}
}

const (
	maxChanged = 10 // polls in a row that find other content, until that is an error
	retryPolls = 30 // polls until content that was not loaded is tried again
)

// poll reads the path and loads content that the poll before found as well. Content with an error is tried again
// now and then, because the reason may be another rule of the gate.
func (w *Watcher) poll() error {
	c, err := w.read()
	if errors.Is(err, ErrClosed) {
		return err
	}
	w.polls++
	if key := keyOf(c, err); key != w.seen {
		w.seen = key
		if w.changed++; w.changed > maxChanged {
			w.refused(Errors{&Error{File: w.cfg.Path, Message: fmt.Sprintf("it keeps changing; it is loaded when it has not changed for %v", w.cfg.Poll)}})
		}
		return nil
	}
	if w.changed > 0 || w.logged != "" && w.polls%retryPolls == 0 {
		return w.load(c, err)
	}
	return nil
}

// read reads the path. It returns ErrClosed once Close is called, even while the file system does not answer.
func (w *Watcher) read() (c *content, err error) {
	done := make(chan struct{})
	var read *content
	var failure error
	go func() {
		defer close(done)
		read, failure = w.files(w.cfg.Path)
	}()
	select {
	case <-done:
		if w.closed {
			return nil, ErrClosed
		}
		return read, failure
	case <-w.stop:
		return nil, ErrClosed
	}
}

func keyOf(c *content, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return string(c.sum[:])
}

// load loads what was read into the gate, if it is new and good.
func (w *Watcher) load(c *content, err error) error {
	w.seen, w.changed = keyOf(c, err), 0
	if err == nil && w.loaded && w.seen == w.active {
		w.recovered()
		return nil
	}
	var f File
	if err == nil {
		p := c.parse(w.program)
		if f, err = p.finish(); err == nil {
			own(&f.Rules, w.cfg.Path)
			err = w.give(f, p)
		}
	}
	if err != nil {
		w.refused(err)
		return err
	}
	w.accepted(c, f)
	return nil
}

// give loads rules into the gate, and limits into the limiters: all or none. The parser that has
// read them knows where they stand, for errors.
func (w *Watcher) give(f File, p *parser) error {
	if w.cfg.Gate != nil {
		if refusal := w.cfg.Gate.ReplaceRules(w.cfg.Path, copied(f.Rules)); refusal != nil {
			return p.refused(w.cfg.Path, refusal)
		}
	}
	name, refusal := w.program.setLimits(f.Limits)
	if refusal == nil {
		return nil
	}
	// No limiter of this module does so: what can be wrong was found before.
	_, _ = w.program.setLimits(w.file.Limits)
	if w.cfg.Gate != nil {
		_ = w.cfg.Gate.ReplaceRules(w.cfg.Path, copied(w.file.Rules)) // which it had
	}
	return p.refusedLimit(w.cfg.Path, name, refusal)
}

// accepted notes that what a content says is active.
func (w *Watcher) accepted(c *content, f File) {
	rules := f.Rules
	w.loaded, w.active, w.logged = true, keyOf(c, nil), ""
	loses := c.losesComments(rules)
	counts := make(map[string]int, len(allKinds))
	var told []slog.Attr
	for _, k := range allKinds {
		n := k.Len((*kinds.Rules)(&rules))
		if n > 0 {
			counts[k.Name()] = n
		}
		told = append(told, slog.Int(k.Name(), n))
	}
	if len(w.program.limiters) > 0 {
		told = append(told, slog.Int(limitsKey, len(f.Limits)))
	}
	w.mu.Lock()
	w.file = f
	w.status = Status{
		Path: w.cfg.Path, Files: c.names(), Rules: counts, Limits: len(f.Limits),
		Since: time.Now(), Loads: w.status.Loads + 1, LosesComments: loses,
	}
	w.mu.Unlock()
	w.log(slog.LevelInfo, "leapgate: rules loaded", told...)
	w.tell()
}

// own marks the rules as those of a source.
func own(rules *leapgate.Rules, source string) {
	all := (*kinds.Rules)(rules)
	for _, k := range allKinds {
		for i := range k.Len(all) {
			*k.Head(all, i).Source = source
		}
	}
}

// recovered notes that the path holds what is active.
func (w *Watcher) recovered() {
	w.mu.Lock()
	healed := w.status.Err != nil
	w.status.Err, w.status.ErrSince = nil, time.Time{}
	w.mu.Unlock()
	if healed {
		w.logged = ""
		w.log(slog.LevelInfo, "leapgate: rule file is good again, with the rules that are active")
		w.tell()
	}
}

// refused notes an error. The rules stay.
func (w *Watcher) refused(err error) {
	if text := err.Error(); text != w.logged {
		w.logged = text
		w.mu.Lock()
		if w.status.Err == nil {
			w.status.ErrSince = time.Now()
		}
		w.status.Err = err
		w.mu.Unlock()
		w.log(slog.LevelError, "leapgate: rule file refused, the rules stay as they are", slog.String("error", oneLine(err)))
		w.tell()
	}
}

func (w *Watcher) tell() {
	select {
	case w.changes <- struct{}{}:
	default: // the reader has not yet seen the last one
	}
}

// oneLine is the text of an error for a log: in one line, with nothing in it that cannot be
// printed, and of bounded length.
func oneLine(err error) string {
	const maxLines = 10
	lines := strings.Split(err.Error(), "\n")
	more := ""
	if len(lines) > maxLines {
		more = fmt.Sprintf("; and %d more", len(lines)-maxLines)
		lines = lines[:maxLines]
	}
	for i, line := range lines {
		lines[i] = escape.Text(line)
	}
	return strings.Join(lines, "; ") + more
}
