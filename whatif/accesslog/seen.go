package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// Seen is what a log has, and what there is to know before its requests are judged.
type Seen struct {
	Files    []FileSeen
	Lines    int // in all files
	Requests int
	// Skipped are good lines that are about something else than a request.
	Skipped int
	// Unreadable lines are counted by their faults, and the first five kept.
	Unreadable int
	First      []BadLine
	// Jumps is how often time goes back within a file by more than a minute. What comes then was
	// merged with the rest.
	Jumps int
	// Late is how many requests stand more than a minute after where they belong. They
	// are taken to have arrived a minute before the last line above them.
	Late int
	// Step is how exact times are: 1 s if all are whole seconds.
	Step time.Duration
	// Paths is how many ways of paths were found, beside those of the routes.
	Paths int
	// NoKey is how many requests have no key.
	NoKey int
	// Refused is how many requests the proxy refused then.
	Refused int

	faults  map[Fault]int
	notes   []string
	noTimes int  // requests without a duration
	full    bool // not all paths had a place
}

// FileSeen is what one file has.
type FileSeen struct {
	Name, Format    string
	Lines, Requests int
}

// BadLine is a line that cannot be read.
type BadLine struct {
	File   string
	Number int    // from 1
	Text   string // what it begins with
	Fault  Fault
}

const (
	maxFirst = 5
	maxShown = 60 // bytes of a bad line
)

func (s *Seen) note(file string, number int, line []byte, err error) {
	var fault Fault
	if !errors.As(err, &fault) {
		s.Skipped++
		return
	}
	s.Unreadable++
	s.faults[fault]++
	if len(s.First) < maxFirst {
		s.First = append(s.First, BadLine{file, number, string(line[:min(len(line), maxShown)]), fault})
	}
}

func (s *Seen) noteRequest(r *Record, column string) {
	if column == "" && len(r.Client) == 0 {
		s.NoKey++
	} else if column != "" {
		if value, ok := r.Column(column); !ok || len(value) == 0 || string(value) == "-" {
			s.NoKey++
		}
	}
	if r.Duration < 0 {
		s.noTimes++
	}
	if r.Refused {
		s.Refused++
	}
}

func (s *Seen) noteFormat(f Format) {
	if note := f.Note(); note != "" && !slices.Contains(s.notes, note) {
		s.notes = append(s.notes, note)
	}
}

// Faults returns why lines could not be read, the commonest first, and how many.
func (s *Seen) Faults() (faults []Fault, counts []int) {
	faults = slices.SortedFunc(maps.Keys(s.faults), func(a, b Fault) int {
		return cmp.Or(s.faults[b]-s.faults[a], strings.Compare(string(a), string(b)))
	})
	for _, f := range faults {
		counts = append(counts, s.faults[f])
	}
	return faults, counts
}

// why says why nothing could be read.
func (s *Seen) why() string {
	if s.Unreadable == 0 {
		return fmt.Sprintf("all %d lines are about something else", s.Skipped)
	}
	faults, _ := s.Faults()
	return fmt.Sprintf("%d lines with %v; the first is %s", s.faults[faults[0]], faults[0], escape.Quoted(s.First[0].Text))
}

// Notes are what a reader must know to judge what is made of the log, in sentences.
func (s *Seen) Notes() (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	notes = append(notes, s.notes...)
	if s.Jumps > 0 {
		add("time goes back by more than a minute %d times within files; the parts were merged", s.Jumps)
	}
	if s.Late > 0 {
		add("%d requests stand more than a minute after where they belong, since they took long or the order is lost: they are placed a minute before the line above", s.Late)
	}
	if s.noTimes == s.Requests {
		add("no line says how long its request took: each is taken to end as soon as it begins, so rules on calls in flight never refuse")
	} else if s.noTimes > 0 {
		add("%d requests have no duration, and are taken to end as soon as they begin", s.noTimes)
	}
	if s.NoKey > 0 {
		add("%d requests have no key, and share one", s.NoKey)
	}
	if s.full {
		add("there are more than %d ways of paths: some requests have the resource %s; give routes", maxNodes, unmatched)
	}
	return notes
}
