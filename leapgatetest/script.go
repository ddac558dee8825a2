package leapgatetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
)

// Run makes calls into a resource of a gate as a script says, and fails the test where something
// else passes than it says:
//
//	@0 try 20 -> 10   @499 try 5 -> 0   @1000 try 20 -> 10
//
// The steps are words, with space between them:
//
//	@499         the time, in ms after the begin of Run; also a duration, as in @1.5s
//	try 5 -> 2   five calls that end at once, of which two pass
//	ok, err      a call that passes, and ends at once as a success or a failure
//	ignored      a call that passes, and ends at once with an outcome that says nothing
//	blocked      a call that is refused
//
// A call that would have to wait counts as refused.
// The arrow may be → as well. Times do not go back. The gate's clock is moved; a gate without a given
// one sleeps, which takes no real time in a bubble of testing/synctest.
func Run(t testing.TB, g *Gate, name, script string, opts ...leapgate.EntryOption) {
	t.Helper()
	steps, err := parse(script)
	if err != nil {
		t.Fatalf("leapgatetest: %v", err)
	}
	at := time.Duration(0)
	for _, s := range steps {
		g.pause(s.at - at)
		at = s.at
		passed := 0
		for range s.calls {
			e, err := g.EntryContext(hurry, name, opts...)
			switch {
			case errors.Is(err, leapgate.ErrBlocked):
				continue
			case err != nil:
				t.Fatalf("leapgatetest: step %d, %s: %v", s.number, s, err)
			}
			passed++
			e.SetOutcome(s.outcome)
			e.Exit()
		}
		if passed != s.passes {
			t.Fatalf("leapgatetest: step %d, %s: %d of %d passed; want %d", s.number, s, passed, s.calls, s.passes)
		}
	}
}

// step is one step of a script.
type step struct {
	number        int // from 1
	at            time.Duration
	text          string
	calls, passes int
	outcome       leapgate.Outcome
}

func (s step) String() string { return fmt.Sprintf("@%d %s", s.at.Milliseconds(), s.text) }

// single are the steps of one call.
var single = map[string]step{
	"ok":      {calls: 1, passes: 1},
	"err":     {calls: 1, passes: 1, outcome: leapgate.Failure},
	"ignored": {calls: 1, passes: 1, outcome: leapgate.Ignored},
	"blocked": {calls: 1},
}

// parse reads a script.
func parse(script string) (steps []step, err error) {
	at := time.Duration(0)
	words := strings.Fields(script)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if text, is := strings.CutPrefix(word, "@"); is {
			next, err := parseTime(text)
			switch {
			case err != nil:
				return nil, fmt.Errorf("word %d is %q; want a time such as @499 (in ms) or @1.5s", i+1, word)
			case next < at:
				return nil, fmt.Errorf("word %d is %q, before @%d; want times that do not go back", i+1, word, at.Milliseconds())
			}
			at = next
			continue
		}
		s, known := single[word]
		s.text = word
		if word == "try" {
			if s, known = parseTry(words[i:]); known {
				i += 3
			}
		}
		if !known {
			return nil, fmt.Errorf("word %d is %q; want @499, try 5 -> 2, ok, err, ignored or blocked", i+1, strings.Join(words[i:min(i+4, len(words))], " "))
		}
		s.at, s.number = at, len(steps)+1
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the script %q has no step", script)
	}
	return steps, nil
}

func parseTime(text string) (time.Duration, error) {
	if ms, err := strconv.ParseUint(text, 10, 40); err == nil {
		return time.Duration(ms) * time.Millisecond, nil //nolint:gosec // it has 40 bits
	}
	return time.ParseDuration(text)
}

// parseTry reads "try 5 -> 2".
func parseTry(words []string) (s step, ok bool) {
	if len(words) < 4 || words[2] != "->" && words[2] != "→" {
		return s, false
	}
	calls, err := strconv.Atoi(words[1])
	passes, err2 := strconv.Atoi(words[3])
	if err != nil || err2 != nil || passes < 0 || calls < passes {
		return s, false
	}
	return step{calls: calls, passes: passes, text: strings.Join(words[:4], " ")}, true
}
