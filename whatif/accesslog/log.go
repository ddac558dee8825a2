package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

// Options say how logs are read.
type Options struct {
	// Format is that of the lines. Nil: the one of [Formats] that the first 100 lines of each file
	// are in.
	Format Format
	// Routes say what the resources of requests are.
	Routes []Route
	// Key is the column that has the key of a request, as [Record.Column] knows it. Empty: the
	// address of the client, of IPv6 its first 64 bits.
	Key string
	// SpoolMax is how large the temporary file may become that standard input, pipes and
	// unpacked files are kept in, in bytes. 0 is [DefaultSpoolMax].
	SpoolMax int64
	// Stdin is what is read for the name "-". Nil: os.Stdin.
	Stdin io.Reader
}

// DefaultSpoolMax is 8 GiB.
const DefaultSpoolMax = 8 << 30

const (
	// horizon is by how much requests may stand in another order than that in which they arrived.
	horizon = time.Minute
	// maxRuns is how many parts of a log may each go on where another has long been.
	maxRuns = 1024
	buffer  = 64 << 10
	// runBuffer is smaller, for many runs may be open at once.
	runBuffer = 16 << 10
)

// Log is one log in any number of files, which may be read any number of times. It is not in
// memory. The files must not change as long as it is open; what is added to them is not read.
type Log struct {
	seen   Seen
	key    string
	routes *routes
	files  []*file
	opened []*os.File
	spool  spool
	runs   []run
	lag    int64 // by how much an arrival may lie before that of another line above it in a run
}

// run is a part of a file in which time goes on.
type run struct {
	file     *file
	from, to int64 // in the file
	first    int64 // when its first line was written
	requests int
}

// UnreadableError is the error for a log in which nothing is a request, with the reason.
type UnreadableError struct{ Name, Reason string }

// Error reads: access.log is not a text file.
func (e *UnreadableError) Error() string { return e.Name + " " + e.Reason }

// Open opens a log that is in these files, in any order: "-" is standard input. What is packed
// with gzip is unpacked. All is read once, to see what there is; [Log.Requests] reads it again.
// The caller must close the log. The error is an [UnreadableError] if there is no request.
func Open(names []string, o Options) (*Log, error) {
	if len(names) == 0 {
		return nil, errors.New("accesslog: there is no file; want at least one")
	}
	r, err := newRoutes(o.Routes)
	if err != nil {
		return nil, err
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	l := &Log{key: o.Key, routes: r, spool: spool{max: cmp.Or(o.SpoolMax, DefaultSpoolMax)}}
	l.seen.Faults = make(map[Fault]int)
	if err := l.index(names, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the files, and removes what was made.
func (l *Log) Close() error {
	var errs []error
	for _, f := range l.opened {
		errs = append(errs, f.Close())
	}
	return errors.Join(append(errs, l.spool.close())...)
}

// Seen returns what the log has.
func (l *Log) Seen() Seen { return l.seen }

// index is the first reading: it finds the runs and the resources.
func (l *Log) index(names []string, o Options) error {
	var errs []error
	first := ""
	for _, name := range names {
		f, err := l.open(name, o.Stdin)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		first = cmp.Or(first, f.name)
		if f.format = o.Format; f.format == nil {
			err = f.detect()
			errs = append(errs, err)
		}
		if f.format != nil {
			l.files = append(l.files, f)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	step := stepper{}
	for _, f := range l.files {
		if err := l.indexFile(f, &step); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	switch {
	case l.seen.Lines == 0:
		return &UnreadableError{first, "is empty: there is nothing to try rules on"}
	case l.seen.Requests == 0:
		return &UnreadableError{first, fmt.Sprintf("has no request that can be read as %s: %s", l.files[0].format.Name(), l.seen.why())}
	}
	if o.Key != "" && !l.seen.hasKey {
		return &UnreadableError{first, fmt.Sprintf("has no request with the column %.64q for the key; want one that the format %s has", o.Key, l.files[0].format.Name())}
	}
	slices.SortStableFunc(l.runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	l.seen.Step = step.step()
	l.seen.Paths = l.routes.found.finish()
	l.seen.full = l.routes.found.full
	l.seen.finish()
	return nil
}

func (l *Log) indexFile(f *file, step *stepper) error {
	seen := FileSeen{Name: f.name, Format: f.format.Name()}
	in := newLines(f.section(0, f.size), 0, buffer)
	latest := int64(math.MinInt64)
	var r *run
	var rec Record
	for {
		start := in.offset
		line, tooLong, err := in.next()
		if err != nil && errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		seen.Lines++
		if err := parse(f.format, line, tooLong, &rec); err != nil {
			l.seen.note(f.name, seen.Lines, line, err)
			continue
		}
		seen.Requests++
		written := rec.written()
		step.note(written)
		if r == nil || written < latest-int64(horizon) && len(l.runs) < maxRuns {
			l.runs = append(l.runs, run{file: f, from: start, first: written})
			if r != nil {
				l.seen.Jumps++
			}
			r, latest = &l.runs[len(l.runs)-1], written
		}
		r.to, r.requests = in.offset, r.requests+1
		latest = max(latest, written)
		lag := latest - rec.At
		if lag > int64(horizon) {
			l.seen.Late++
		}
		l.lag = max(l.lag, min(lag, int64(horizon)))
		l.seen.noteRequest(&rec, l.key)
		l.routes.note(&rec)
	}
	if seen.Requests > 0 {
		l.seen.noteFormat(f.format)
	}
	l.seen.Files = append(l.seen.Files, seen)
	l.seen.Lines += seen.Lines
	l.seen.Requests += seen.Requests
	return nil
}

func parse(f Format, line []byte, tooLong bool, r *Record) error {
	if tooLong {
		return TooLong
	}
	return f.Parse(line, r)
}

// written is when the line was, as far as it tells.
func (r *Record) written() int64 { return r.At + max(0, int64(r.Duration)) }

// stepper finds how exact times are, from what they all are multiples of.
type stepper struct{ finer [3]bool }

var steps = [...]time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

func (s *stepper) note(at int64) {
	for i := range s.finer {
		s.finer[i] = s.finer[i] || at%int64(steps[i]) != 0
	}
}

func (s *stepper) step() time.Duration {
	for i, finer := range s.finer {
		if !finer {
			return steps[i]
		}
	}
	return steps[len(steps)-1]
}
