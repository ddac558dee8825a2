package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/whatif"
)

// Requests is a [whatif.Source]: it yields the requests in the order of their arrival. Those that
// arrived at the same time come in an order that does not depend on that of their lines, and
// that is no order by client or path: by a sum of the line.
func (l *Log) Requests(yield func(whatif.Request, error) bool) {
	m := merge{log: l, runs: l.runs, yield: yield, flushAt: minPending}
	m.formats = make(map[*file]Format, len(l.files))
	for _, f := range l.files {
		m.formats[f] = f.format.Clone()
	}
	if err := m.all(); err != nil {
		yield(whatif.Request{}, err)
	}
}

// merge reads all runs at once, each as far as the others.
type merge struct {
	log     *Log
	formats map[*file]Format
	runs    []run     // that are still to come
	active  []*cursor // being read
	pending []request // read, and perhaps not the earliest
	flushAt int       // how many are worth sorting
	yield   func(whatif.Request, error) bool
	done    bool
	record  Record
}

const minPending = 512

// request is one that was read, with what decides its order.
type request struct {
	at       int64
	sum      uint32
	refused  bool
	status   int16
	duration time.Duration
	resource string
	key      string
}

func (a *request) compare(b *request) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	if a.sum != b.sum {
		return cmp.Compare(a.sum, b.sum)
	}
	// Two different lines with the same sum, which are the same line for all that this is for.
	refused := func(r *request) int {
		if r.refused {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.resource, b.resource), strings.Compare(a.key, b.key),
		cmp.Compare(a.duration, b.duration), cmp.Compare(a.status, b.status), refused(a)-refused(b))
}

// cursor reads one run.
type cursor struct {
	run   run
	lines *lines
	read  int
	last  int64 // the latest that a line was written
}

// frontier is before or at all that a run still has.
func (m *merge) frontier(c *cursor) int64 { return c.last - m.log.lag }

var errChanged = errors.New("the log has changed since it was opened")

func (m *merge) all() error {
	for !m.done {
		c, until := m.earliest()
		if c == nil {
			m.flush(math.MaxInt64)
			return nil
		}
		for !m.done && m.frontier(c) <= until {
			more, err := m.read(c)
			if err != nil {
				return err
			}
			if !more {
				m.active = slices.DeleteFunc(m.active, func(other *cursor) bool { return other == c })
				break
			}
			if len(m.pending) >= m.flushAt {
				m.flush(min(m.frontier(c), until))
			}
		}
	}
	return nil
}

// earliest returns the run that has the earliest of what is still to come, perhaps, and up to
// which time that is so.
func (m *merge) earliest() (first *cursor, until int64) {
	for {
		first, until = nil, math.MaxInt64
		for _, c := range m.active {
			switch {
			case first == nil:
				first = c
			case m.frontier(c) < m.frontier(first):
				first, until = c, m.frontier(first)
			default:
				until = min(until, m.frontier(c))
			}
		}
		if len(m.runs) == 0 {
			return first, until
		}
		next := m.runs[0].first - m.log.lag
		if first != nil && m.frontier(first) <= next {
			return first, min(until, next)
		}
		r := m.runs[0]
		m.runs = m.runs[1:]
		m.active = append(m.active, &cursor{run: r, last: r.first, lines: newLines(r.file.section(r.from, r.to), r.from, runBuffer)})
	}
}

// read takes the next request of a run, and reports whether there was one.
func (m *merge) read(c *cursor) (more bool, err error) {
	format := m.formats[c.run.file]
	for {
		line, tooLong, err := c.lines.next()
		if err != nil && errors.Is(err, io.EOF) {
			if c.read != c.run.requests {
				return false, fmt.Errorf("%s: %w", c.run.file.name, errChanged)
			}
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.run.file.name, err)
		}
		rec := &m.record
		if parse(format, line, tooLong, rec) != nil {
			continue // counted when the log was opened
		}
		c.read++
		c.last = max(c.last, rec.written())
		m.pending = append(m.pending, request{
			at: max(rec.At, m.frontier(c)), sum: crc32.Checksum(line, castagnoli), refused: rec.Refused, status: int16(rec.Status),
			duration: max(0, rec.Duration), resource: m.log.routes.resource(rec), key: keyOf(rec, m.log.key),
		})
		return true, nil
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flush yields what arrived before a time, up to which all has been read.
func (m *merge) flush(before int64) {
	slices.SortFunc(m.pending, func(a, b request) int { return a.compare(&b) })
	n := 0
	for ; n < len(m.pending) && m.pending[n].at < before && !m.done; n++ {
		r := &m.pending[n]
		m.done = !m.yield(whatif.Request{
			At: time.Unix(0, r.at).UTC(), Resource: r.resource, Key: r.key, Duration: r.duration, Status: int(r.status), Refused: r.refused,
		}, nil)
	}
	m.pending = m.pending[:copy(m.pending, m.pending[n:])]
	m.flushAt = max(minPending, 2*len(m.pending))
}
