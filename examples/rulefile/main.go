// Rulefile shows rules that come from a file and change while the program runs. It writes a
// rule file into a folder for temporary files, edits it in the ways in which people and
// programs do, some of them wrong, and prints after each what becomes of twenty calls.
//
//	go run ./examples/rulefile
//
// A wrong file, or none, changes nothing: the last good rules stay.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/rulefile"
)

func main() { program.Main("rulefile", show) }

func show(stdout io.Writer) error {
	// After an interrupt, show returns and removes the folder.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	folder, err := os.MkdirTemp("", "leapgate-rulefile")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is in the folder for temporary files
	path := filepath.Join(folder, "rules.yaml")
	write := func(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }
	if err := write(path, "flow:\n  - id: orders\n    resource: GET /orders\n    threshold: 3\n"); err != nil {
		return err
	}

	// A clock of its own, so that each round of calls meets an empty window.
	var now atomic.Int64
	gate, err := leapgate.New(leapgate.Config{Now: now.Load})
	if err != nil {
		return err
	}
	defer gate.Close()
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Poll: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }() // always nil

	calls := func(what string) {
		now.Add(int64(time.Minute))
		passed := 0
		for range 20 {
			entry, err := gate.Entry("GET /orders")
			if err == nil {
				passed++
			}
			entry.Exit()
		}
		fmt.Fprintf(stdout, "%-28s %2d of 20 pass\n", what, passed)
		var found *rulefile.Error
		if errors.As(watcher.Status().Err, &found) {
			fault := *found
			fault.File = filepath.Base(fault.File) // the rest is another each time
			fmt.Fprintf(stdout, "    %v\n", &fault)
		}
	}
	calls("as it was written")

	for _, edit := range []struct {
		what string
		do   func() error
		good bool
	}{
		{"edited in place", func() error {
			return write(path, "flow:\n  - id: orders\n    resource: GET /orders\n    threshold: 5\n")
		}, true},
		{"JSON, renamed over it", func() error {
			other := filepath.Join(folder, "rules.yaml.new")
			if err := write(other, `{"flow": [{"id": "orders", "resource": "GET /orders", "threshold": 7}]}`); err != nil {
				return err
			}
			return os.Rename(other, path)
		}, true},
		{"a slip of the finger", func() error {
			return write(path, "flow:\n  - id: orders\n    resource: GET /orders\n    treshold: 700\n")
		}, false},
		{"set right", func() error {
			return write(path, "flow:\n  - id: orders\n    resource: GET /orders\n    threshold: 9\n")
		}, true},
		{"taken away", func() error { return os.Remove(path) }, false},
		{"there again, in shadow mode", func() error {
			return write(path, "flow:\n  - id: orders\n    resource: GET /orders\n    threshold: 9\n    mode: shadow\n")
		}, true},
	} {
		before := watcher.Status()
		if err := edit.do(); err != nil {
			return err
		}
		err := await(ctx, watcher, func(status rulefile.Status) bool {
			if edit.good {
				return status.Loads > before.Loads
			}
			return status.Err != nil
		})
		if err != nil {
			return err
		}
		calls(edit.what)
	}
	return nil
}

// await waits until the status of a watcher is as it should be.
func await(ctx context.Context, watcher *rulefile.Watcher, ok func(rulefile.Status) bool) error {
	limit := time.After(10 * time.Second)
	for !ok(watcher.Status()) {
		select {
		case <-watcher.Changes():
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-limit:
			return fmt.Errorf("nothing came of the edit; %+v", watcher.Status())
		}
	}
	return nil
}
