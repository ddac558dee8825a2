package accesslog

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// Seen is what a log has, and what there is to know before its requests are judged.
type Seen struct {
	Files    []FileSeen `json:"files"`
	Lines    int        `json:"lines"` // in all files
	Requests int        `json:"requests"`
	// Skipped are good lines that are about something else than a request.
	Skipped int `json:"skipped,omitempty"`
	// Unreadable lines are counted by their faults too, and the first five kept.
	Unreadable int           `json:"unreadable,omitempty"`
	Faults     map[Fault]int `json:"faults,omitempty"`
	First      []BadLine     `json:"firstUnreadable,omitempty"`
	// Jumps is how often time goes back within a file by more than a minute. What comes then was
	// merged with the rest.
	Jumps int `json:"jumps,omitempty"`
	// Step is how exact times are: 1 s if all that stand in the lines of some file are whole seconds.
	Step time.Duration `json:"stepNanoseconds"`
	// Paths is how many ways of paths were found, beside those of the routes.
	Paths int `json:"paths"`
	// NoKey is how many requests have no key.
	NoKey int `json:"noKey,omitempty"`
	// Refused is how many requests were refused then: by the proxy, or with status 429.
	Refused int `json:"refused,omitempty"`
	// Dropped is how many lines were lost when the log was written, as far as it says so.
	Dropped int `json:"dropped,omitempty"`

	// Notes are what a reader must know to judge what is made of the log, in sentences.
	Notes []string `json:"notes,omitempty"`

	noTimes int  // requests without a duration
	long    int  // that took more than a minute
	hasKey  bool // some have the column for it, at least
	full    bool // not all paths had a place
}

// FileSeen is what one file has.
type FileSeen struct {
	Name     string `json:"name"`
	Format   string `json:"format"`
	Lines    int    `json:"lines"`
	Requests int    `json:"requests"`
}

// BadLine is a line that cannot be read.
type BadLine struct {
	File   string `json:"file"`
	Number int    `json:"number"` // from 1
	Text   string `json:"text"`   // what it begins with: escape it before it is shown
	Fault  Fault  `json:"fault"`
}

const (
	maxFirst = 5
	maxShown = 60 // bytes of a bad line
)

func (s *Seen) note(file string, number int, line []byte, err error, r *Record) {
	var fault Fault
	switch {
	case errors.As(err, &fault):
		s.Unreadable++
		s.Faults[fault]++
		if len(s.First) < maxFirst {
			s.First = append(s.First, BadLine{file, number, string(line[:min(len(line), maxShown)]), fault})
		}
	case r.Dropped > 0:
		s.Dropped += r.Dropped
	default:
		s.Skipped++
	}
}

func (s *Seen) noteRequest(r *Record, q *request) {
	if q.key == 0 {
		s.NoKey++
	}
	if r.Duration < 0 {
		s.noTimes++
	}
	if r.Duration > time.Minute {
		s.long++
	}
	if q.refused {
		s.Refused++
	}
}

func (s *Seen) noteFormat(f Format) {
	if note := f.Note(); note != "" && !slices.Contains(s.Notes, note) {
		s.Notes = append(s.Notes, note)
	}
}

// commonest returns why lines could not be read, the commonest reason first.
func (s *Seen) commonest() []Fault {
	return slices.SortedFunc(maps.Keys(s.Faults), func(a, b Fault) int {
		return cmp.Or(s.Faults[b]-s.Faults[a], strings.Compare(string(a), string(b)))
	})
}

// why says why nothing could be read.
func (s *Seen) why() string {
	if s.Unreadable == 0 {
		return fmt.Sprintf("all %d lines are about something else", s.Skipped)
	}
	most := s.commonest()[0]
	return fmt.Sprintf("%d lines with %v; the first is %s", s.Faults[most], most, escape.Quoted(s.First[0].Text))
}

// finish says what there is to know.
func (s *Seen) finish() {
	add := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	if s.Jumps > 0 {
		add("time goes back by more than a minute within files, %d times; the requests were sorted", s.Jumps)
	}
	if 2*s.long > s.Requests-s.noTimes {
		add("requests that took more than a minute: %d of %d; are their durations in another unit? Then give the format", s.long, s.Requests-s.noTimes)
	}
	if s.Dropped > 0 {
		add("lines that were lost when the log was written: %d; what is counted here is less than what there was", s.Dropped)
	}
	if s.noTimes > 0 {
		add("requests without a duration: %d of %d; they end as soon as they begin, so rules on calls in flight never block them", s.noTimes, s.Requests)
	}
	if s.full {
		add("there are more than %d different paths: the others have the resource %s; give routes", maxNames, unmatched)
	}
}

// WriteText writes it for people. It escapes what comes from the log.
func (s *Seen) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps the first error for Flush
	fmt.Fprintf(out, "%d lines: %d requests", s.Lines, s.Requests)
	if s.Skipped > 0 {
		fmt.Fprintf(out, ", %d about something else", s.Skipped)
	}
	fmt.Fprintf(out, ", %d that cannot be read\n", s.Unreadable)
	for _, f := range s.commonest() {
		fmt.Fprintf(out, "  %d with %v\n", s.Faults[f], f)
	}
	for _, bad := range s.First {
		fmt.Fprintf(out, "  %s:%d: %s\n", escape.Text(bad.File), bad.Number, strconv.Quote(bad.Text))
	}
	for _, f := range s.Files {
		fmt.Fprintf(out, "%s: %d requests in format %s\n", escape.Text(f.Name), f.Requests, f.Format)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	return out.Flush()
}
