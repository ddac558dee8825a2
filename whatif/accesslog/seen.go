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

// Seen describes a log.
type Seen struct {
	Files      []FileSeen `json:"files"`
	Lines      int        `json:"lines"` // in all files
	Requests   int        `json:"requests"`
	Skipped    int        `json:"skipped,omitempty"` // valid lines that are not about a request
	Unreadable int        `json:"unreadable,omitempty"`
	// Faults counts the unreadable lines by fault, and First has the first five of them.
	Faults map[Fault]int `json:"faults,omitempty"`
	First  []BadLine     `json:"firstUnreadable,omitempty"`
	// Jumps counts how often the time decreases by more than a minute within a file.
	Jumps int `json:"jumps,omitempty"`
	// Step is the precision of times: 1s if the lines of some file contain whole seconds only.
	Step    time.Duration `json:"stepNanoseconds"`
	Paths   int           `json:"paths"`             // patterns that were found
	NoKey   int           `json:"noKey,omitempty"`   // requests without a key
	Refused int           `json:"refused,omitempty"` // requests that were blocked by the proxy, or have status 429
	Dropped int           `json:"dropped,omitempty"` // lines that the writer of the log lost, as far as the log says so

	// Notes are sentences that a reader needs to judge results.
	Notes []string `json:"notes,omitempty"`

	noTimes int  // requests without a duration
	long    int  // requests of more than a minute
	hasKey  bool // some lines have the column of the key
	full    bool // there were more paths than fit into maxNames bytes
}

// FileSeen describes a file.
type FileSeen struct {
	Name     string `json:"name"`
	Format   string `json:"format"`
	Lines    int    `json:"lines"`
	Requests int    `json:"requests"`
}

// BadLine is an unreadable line.
type BadLine struct {
	File   string `json:"file"`
	Number int    `json:"number"` // from 1
	Text   string `json:"text"`   // the first bytes: escape them before they are shown
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

// commonest returns the faults of lines, the most frequent first.
func (s *Seen) commonest() []Fault {
	return slices.SortedFunc(maps.Keys(s.Faults), func(a, b Fault) int {
		return cmp.Or(s.Faults[b]-s.Faults[a], strings.Compare(string(a), string(b)))
	})
}

// why returns the reason why no line could be read.
func (s *Seen) why() string {
	if s.Unreadable == 0 {
		return fmt.Sprintf("all %d lines are about something else", s.Skipped)
	}
	most := s.commonest()[0]
	return fmt.Sprintf("%d lines with %v; the first is %s", s.Faults[most], most, escape.Quoted(s.First[0].Text))
}

// finish adds the notes.
func (s *Seen) finish() {
	add := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	if s.Jumps > 0 {
		add("time goes back by more than a minute within files, %d times; the requests were sorted", s.Jumps)
	}
	if 2*s.long > s.Requests-s.noTimes {
		add("requests that took more than a minute: %d of %d; are their durations in another unit? Then give the format", s.long, s.Requests-s.noTimes)
	}
	if s.Dropped > 0 {
		add("lines that were lost when the log was written: %d; there were more requests than counted here", s.Dropped)
	}
	if s.noTimes > 0 {
		add("requests without a duration: %d of %d; they end as soon as they begin, so rules on calls in flight never block them", s.noTimes, s.Requests)
	}
	if s.full {
		add("there are more different paths than fit into %d MiB: the others have the resource %s; give routes", maxNames>>20, unmatched)
	}
}

// WriteText writes a description for terminals. Text from the log is escaped.
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
