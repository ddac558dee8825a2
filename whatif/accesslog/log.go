package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/whatif"
)

// Options configure how logs are read.
type Options struct {
	// Format is the format of the lines. If it is nil, the format of each file is detected from its first 100 lines.
	Format Format
	// Routes are the patterns of resources.
	Routes []Route
	// Key is the column with the key of a request. If it is empty, the key is the address of the client: of IPv6, its
	// first 64 bits.
	Key string
	// Stdin is read for the name "-". If it is nil, os.Stdin is used.
	Stdin io.Reader

	maxRequests int // for tests; 0 means MaxRequests
}

// MaxRequests limits the number of requests of a log.
const MaxRequests = 10_000_000

// Log holds the requests of one or more files in memory, sorted by arrival. Its methods may be called by multiple
// goroutines.
type Log struct {
	seen      Seen
	requests  []request
	resources interned
	keys      interned // the first is the empty key
}

// request is a request of a log.
type request struct {
	at, duration int64
	resource     uint32 // while the log is read, the name of the target
	key          uint32
	cost         uint32
	sum          uint32 // of the line: the order of requests that arrive at the same time
	status       uint16
	method       uint8 // of the target
	refused      bool
}

// Stdin is the name of standard input among the names of files.
const Stdin = "-"

// reader reads the files of a log.
type reader struct {
	*Log
	o      Options
	routes *routes
	opened []os.FileInfo
}

// Open reads a log that consists of files in any order. The name "-" is standard input. Files compressed with gzip
// are decompressed. A log without requests is an error.
func Open(names []string, o Options) (*Log, error) {
	if len(names) == 0 {
		return nil, errors.New("accesslog: there is no file; want at least one")
	}
	given, err := newRoutes(o.Routes)
	if err != nil {
		return nil, err
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	o.maxRequests = cmp.Or(o.maxRequests, MaxRequests)
	l := &Log{seen: Seen{Faults: make(map[Fault]int)}}
	l.keys.number("", math.MaxInt)
	r := &reader{Log: l, o: o, routes: given}
	var errs []error
	for _, name := range names {
		errs = append(errs, r.open(name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, r.finish()
}

func (r *reader) open(name string) error {
	if name == Stdin {
		return r.read("<standard input>", r.o.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a folder; want the files in it", name)
	}
	for _, other := range r.opened {
		if info.Mode().IsRegular() && os.SameFile(info, other) {
			return fmt.Errorf("%s is given twice, perhaps by two names", name)
		}
	}
	r.opened = append(r.opened, info)
	return r.read(name, f)
}

const (
	maxLine   = 1 << 20
	gzipMagic = "\x1f\x8b"
)

// read reads a file.
func (r *reader) read(name string, from io.Reader) error {
	in := bufio.NewReaderSize(from, maxLine)
	if magic, _ := in.Peek(len(gzipMagic)); string(magic) == gzipMagic {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		in = bufio.NewReaderSize(z, maxLine)
	}
	format := r.o.Format
	if format == nil {
		begin, err := in.Peek(maxLine)
		if len(begin) == 0 && errors.Is(err, io.EOF) {
			return nil // some rotated logs are empty
		}
		if format, err = detect(name, begin); err != nil {
			return err
		}
	}
	if err := r.readLines(name, in, format); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *reader) readLines(name string, in *bufio.Reader, format Format) error {
	seen := FileSeen{Name: name, Format: format.Name()}
	latest := int64(math.MinInt64)
	step := time.Second
	var rec Record
	for {
		line, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, TooLong) {
			return err
		}
		seen.Lines++
		if err == nil {
			err = format.Parse(line, &rec)
		}
		if err != nil {
			r.seen.note(name, seen.Lines, line, err, &rec)
			continue
		}
		seen.Requests++
		for rec.Stamp%int64(step) != 0 {
			step /= 1000
		}
		if written := rec.At + max(0, int64(rec.Duration)); latest > math.MinInt64 && written < latest-int64(time.Minute) {
			r.seen.Jumps++
			latest = written
		} else {
			latest = max(latest, written)
		}
		if len(r.requests) == r.o.maxRequests {
			return fmt.Errorf("the log has more than %d requests, the most that are kept in memory; give fewer files, or a part of the log", r.o.maxRequests)
		}
		r.add(&rec, line)
	}
	if seen.Requests > 0 {
		r.seen.noteFormat(format)
		r.seen.Step = max(r.seen.Step, step)
	}
	r.seen.Files = append(r.seen.Files, seen)
	r.seen.Lines += seen.Lines
	r.seen.Requests += seen.Requests
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *reader) add(rec *Record, line []byte) {
	key := keyOf(rec, r.o.Key)
	if r.o.Key != "" {
		_, ok := rec.Column(r.o.Key)
		r.seen.hasKey = r.seen.hasKey || ok
	}
	t := r.routes.target(rec)
	q := request{
		at: rec.At, duration: int64(max(0, rec.Duration)), resource: t.name, method: t.method, key: r.keys.number(key, math.MaxInt),
		cost: uint32(rec.Cost), sum: crc32.Checksum(line, castagnoli), status: uint16(rec.Status),
		refused: rec.Refused || rec.Status == http.StatusTooManyRequests,
	}
	r.requests = append(r.requests, q)
	r.seen.noteRequest(rec, &q)
}

// finish sorts the requests and finds their resources.
func (r *reader) finish() error {
	l := r.Log
	if l.seen.Lines == 0 {
		return errors.New("the log is empty: there is nothing to try rules on")
	}
	first := l.seen.Files[0]
	if l.seen.Requests == 0 {
		return fmt.Errorf("%s has no request that can be read as %s: %s", first.Name, first.Format, l.seen.why())
	}
	if r.o.Key != "" && !l.seen.hasKey {
		return fmt.Errorf("%s has no request with the column %.64q for the key; want one that the format %s has", first.Name, r.o.Key, first.Format)
	}
	number, patterns := r.routes.resources(&l.resources)
	for i := range l.requests {
		q := &l.requests[i]
		q.resource = number(target{q.resource, q.method})
	}
	slices.SortFunc(l.requests, l.compare)
	l.keys.ids, l.resources.ids = nil, nil
	l.seen.Paths, l.seen.full = patterns, r.routes.names.full
	l.seen.finish()
	return nil
}

// compare orders requests by arrival. Requests that arrive at the same time come in an order that does not depend on
// the order of their lines, and that is not sorted by client or path.
func (l *Log) compare(a, b request) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	if a.sum != b.sum {
		return cmp.Compare(a.sum, b.sum)
	}
	return cmp.Or(strings.Compare(l.resources.all[a.resource], l.resources.all[b.resource]), strings.Compare(l.keys.all[a.key], l.keys.all[b.key]),
		cmp.Compare(a.duration, b.duration), cmp.Compare(a.status, b.status), cmp.Compare(a.cost, b.cost))
}

// Seen returns a description of the log.
func (l *Log) Seen() Seen { return l.seen }

// Requests is a [whatif.Source]: it yields the requests in the order of their arrival.
func (l *Log) Requests(yield func(whatif.Request, error) bool) {
	for i := range l.requests {
		q := &l.requests[i]
		if !yield(whatif.Request{
			At: time.Unix(0, q.at).UTC(), Resource: l.resources.all[q.resource], Key: l.keys.all[q.key],
			Duration: time.Duration(q.duration), Status: int(q.status), Cost: int64(q.cost), Refused: q.refused,
		}, nil) {
			return
		}
	}
}

// nextLine returns a line without its line break, valid until the next call. The error is TooLong with the beginning
// of a line that is too long, and io.EOF after the last line.
func nextLine(in *bufio.Reader) (line []byte, err error) {
	line, err = in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line[:maxShown])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = TooLong
		}
		return line, err
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the last line has no line break
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), err
}

// compressed are the first bytes of files in other compressed formats.
var compressed = []struct{ magic, program string }{
	{"\x28\xb5\x2f\xfd", "zstd"}, {"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"PK\x03\x04", "unzip -p"}, {"\x04\x22\x4d\x18", "lz4"},
}

// detect returns the format of a file by its beginning.
func detect(name string, begin []byte) (Format, error) {
	const maxLines = 100
	lines := bytes.SplitN(begin, []byte("\n"), maxLines+1)
	if last := len(lines) - 1; last == maxLines || len(begin) == maxLine && last > 0 || len(lines[last]) == 0 {
		lines = lines[:last] // the rest, or an incomplete line
	}
	for i := range lines {
		lines[i] = bytes.TrimSuffix(lines[i], []byte("\r"))
	}
	if format, ok := Detect(lines); ok {
		return format, nil
	}
	for _, c := range compressed {
		if bytes.HasPrefix(begin, []byte(c.magic)) {
			return nil, fmt.Errorf("%s is compressed, and only gzip is supported; decompress it with %s", name, c.program)
		}
	}
	if bytes.IndexByte(begin, 0) >= 0 {
		return nil, fmt.Errorf("%s is not a text file", name)
	}
	return nil, fmt.Errorf("%s is in no known format: none of its first %d lines can be read; the first is %.80q", name, len(lines), lines[0])
}
