package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
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
	// unpacked files are kept in, and, of a log of more than 131,072 requests, 24 bytes for each, in
	// bytes. 0 is [DefaultSpoolMax].
	SpoolMax int64
	// Stdin is what is read for the name "-". Nil: os.Stdin.
	Stdin io.Reader

	inMemory int // places; 0: maxPlaces
}

// DefaultSpoolMax is 8 GiB.
const DefaultSpoolMax = 8 << 30

const (
	// jump is how much earlier a line is than one above it if the lines are in another order than that in
	// which they were written.
	jump   = int64(time.Minute)
	buffer = 64 << 10
)

// Log is one log in any number of files, which may be read any number of times, but not by two
// goroutines at once. It is not in memory. The files must not change as long as it is open; what is added
// to them is not read.
type Log struct {
	seen   Seen
	key    string
	routes *routes
	files  []*file
	given  []*onDisk
	open   openFiles
	spool  spool
	index  index
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
	if len(names) > maxFiles {
		return nil, fmt.Errorf("accesslog: there are %d files; want at most %d", len(names), maxFiles)
	}
	l := &Log{key: o.Key, routes: r, spool: spool{max: cmp.Or(o.SpoolMax, DefaultSpoolMax)}}
	l.index = index{spool: &l.spool, most: cmp.Or(o.inMemory, maxPlaces)}
	l.seen.Faults = make(map[Fault]int)
	if err := l.read(names, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the files, and removes what was made.
func (l *Log) Close() error { return errors.Join(l.open.close(), l.spool.close()) }

// Seen returns what the log has.
func (l *Log) Seen() Seen { return l.seen }

// read is the first reading: it finds the order of the requests, and the resources.
func (l *Log) read(names []string, o Options) error {
	var errs []error
	first := ""
	for _, name := range names {
		f, err := l.file(name, o.Stdin)
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
			f.number = len(l.files)
			l.files = append(l.files, f)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, f := range l.files {
		if err := l.readFile(f); err != nil {
			return err
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
	l.seen.Paths = l.routes.found.finish()
	l.seen.full = l.routes.found.full
	l.seen.finish()
	return l.index.finish()
}

func (l *Log) readFile(f *file) error {
	seen := FileSeen{Name: f.name, Format: f.format.Name()}
	in := newLines(f.section(0, f.size), 0, buffer)
	latest := int64(math.MinInt64)
	var step stepper
	var rec Record
	for {
		start := in.offset
		line, tooLong, err := in.next()
		if err != nil && errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		seen.Lines++
		if err := parse(f.format, line, tooLong, &rec); err != nil {
			l.seen.note(f.name, seen.Lines, line, err, rec.Dropped)
			continue
		}
		seen.Requests++
		step.note(cmp.Or(rec.Stamp, rec.At))
		written := rec.At + max(0, int64(rec.Duration))
		if latest > math.MinInt64 && written < latest-jump {
			l.seen.Jumps++
			latest = written
		}
		latest = max(latest, written)
		if err := l.index.add(newPlace(rec.At, f.number, start, crc32.Checksum(line, castagnoli), len(line))); err != nil {
			return err
		}
		l.seen.noteRequest(&rec, l.key)
		l.routes.note(&rec)
	}
	if seen.Requests > 0 {
		seen.Step = step.step()
		l.seen.noteFormat(f.format)
	}
	l.seen.add(seen)
	return nil
}

func parse(f Format, line []byte, tooLong bool, r *Record) error {
	if tooLong {
		r.Dropped = 0
		return TooLong
	}
	return f.Parse(line, r)
}

// stepper finds how exact times are, from what they all are multiples of.
type stepper struct{ finer [3]bool }

var steps = [...]time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

func (s *stepper) note(at int64) {
	for i := range s.finer {
		if s.finer[i] {
			continue
		}
		if at%int64(steps[i]) == 0 {
			return
		}
		s.finer[i] = true
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
