package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/rulefile"
)

// A trouble goes wrong in a shop that is calm otherwise: in the last part of each period.
const (
	troublePeriod = 30 * time.Second
	troubleLength = 18 * time.Second
)

// troubles are what may be asked for, by what they do to the calls of the resource that they trouble.
// That of the rule file does nothing to calls.
var troubles = map[string]flowOfCalls{
	"outage": {
		resource: "payments.charge", rate: always(15), work: between(60*time.Millisecond, 220*time.Millisecond),
		fails: troubled(always(0.9), always(0)),
	},
	"overload": {
		resource: "GET /orders", rate: troubled(always(150), always(20)), work: between(3*time.Millisecond, 14*time.Millisecond), fails: always(0),
	},
	"hotkey": {
		resource: "GET /items", rate: always(50), work: between(3*time.Millisecond, 20*time.Millisecond), fails: always(0),
		item: troubled(mostly("item-7"), anyItem),
	},
	"rulefile": {},
}

func troubleNames() string {
	names := make([]string, 0, len(troubles))
	for name := range troubles {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func troubled[T any](one, other func(time.Duration) T) func(time.Duration) T {
	return inTurns(troublePeriod, troubleLength, one, other)
}

// calmCustomers are the calls of a shop without trouble, and those that make it.
func calmCustomers(trouble flowOfCalls) []flowOfCalls {
	calm := []flowOfCalls{
		{resource: "GET /orders", rate: always(20), work: between(3*time.Millisecond, 14*time.Millisecond)},
		{resource: "GET /search", rate: always(12), work: between(10*time.Millisecond, 40*time.Millisecond)},
		{resource: "GET /items", rate: always(30), work: between(3*time.Millisecond, 20*time.Millisecond), item: anyItem},
		{resource: "db.query", rate: always(40), work: between(5*time.Millisecond, 25*time.Millisecond)},
		{resource: "mail.send", rate: always(0.5), work: between(20*time.Millisecond, 60*time.Millisecond)},
		{resource: "payments.charge", rate: always(8), work: between(60*time.Millisecond, 220*time.Millisecond)},
		{resource: "cache.get", rate: always(100), work: between(50*time.Microsecond, 900*time.Microsecond)},
	}
	for i := range calm {
		calm[i].fails = always(0)
		if calm[i].resource == trouble.resource {
			calm[i] = trouble
		}
	}
	return calm
}

func anyItem(time.Duration) string { return fmt.Sprintf("item-%d", rand.IntN(40)) }

// mostly is one item in four of five calls.
func mostly(hot string) func(time.Duration) string {
	return func(at time.Duration) string {
		if rand.IntN(5) > 0 {
			return hot
		}
		return anyItem(at)
	}
}

// tell says when a trouble begins and ends, until ctx does. The rule file is broken meanwhile, if there is one.
func (s *shop) tell(ctx context.Context, trouble string, out io.Writer) {
	for on := false; ; on = !on {
		length, what := troublePeriod-troubleLength, "All is calm."
		if on {
			length, what = troubleLength, "Trouble: "+trouble+"."
		}
		if s.rules != nil {
			if err := s.rules.write(on); err != nil {
				what = err.Error()
			}
		}
		fmt.Fprintln(out, what)
		select {
		case <-ctx.Done():
			return
		case <-time.After(length):
		}
	}
}

const goodRules = `# What the shop allows beside the rules of the program.
flow:
  - id: reports
    resource: report.daily
    threshold: 2 # each costs much
`

// A ruleFile is a file of rules that is watched, and may be broken.
type ruleFile struct {
	path    string
	watcher *rulefile.Watcher
}

func newRuleFile(s *shop, logger *slog.Logger) (f *ruleFile, err error) {
	folder, err := os.MkdirTemp("", "leapgate-shop-")
	if err != nil {
		return nil, err
	}
	f = &ruleFile{path: filepath.Join(folder, "shop.yaml")}
	if err = f.write(false); err == nil {
		f.watcher, err = rulefile.Watch(rulefile.Config{Path: f.path, Gate: s.gate, Logger: logger, Poll: 200 * time.Millisecond})
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return f, nil
}

// write writes rules that are good, or broken.
func (f *ruleFile) write(broken bool) error {
	rules := goodRules
	if broken {
		rules = strings.Replace(rules, "threshold: 2", "threshold: -2", 1)
	}
	// It is written beside its place and renamed over it, so that nobody reads the half of it.
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(rules), 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path)
}

func (f *ruleFile) close() {
	_ = f.watcher.Close()
	_ = os.RemoveAll(filepath.Dir(f.path))
}
