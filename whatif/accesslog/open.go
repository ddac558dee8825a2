package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// Stdin is the name of standard input among those of files.
const Stdin = "-"

// file is a log that can be read from anywhere in it.
type file struct {
	name   string
	number int // among those of the log
	format Format
	data   io.ReaderAt
	size   int64
}

func (f *file) section(from, to int64) io.Reader { return io.NewSectionReader(f.data, from, to-from) }

// maxOpen is how many files may be open at once.
const maxOpen = 256

// onDisk is a file that is opened when it is read: there may be more of them than a process can have open.
type onDisk struct {
	name string
	info os.FileInfo
	file *os.File // nil: it is not open
	all  *openFiles
}

// openFiles are those that are open, the first opened first.
type openFiles []*onDisk

// ReadAt implements io.ReaderAt.
func (d *onDisk) ReadAt(p []byte, offset int64) (int, error) {
	if d.file == nil {
		if err := d.open(); err != nil {
			return 0, err
		}
	}
	return d.file.ReadAt(p, offset)
}

func (d *onDisk) open() error {
	f, err := os.Open(d.name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, d.info) {
		err = errChanged
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.file = f
	if *d.all = append(*d.all, d); len(*d.all) > maxOpen {
		oldest := (*d.all)[0]
		*d.all = slices.Delete(*d.all, 0, 1)
		err, oldest.file = oldest.file.Close(), nil
	}
	return err
}

func (all *openFiles) close() (err error) {
	for _, d := range *all {
		err = errors.Join(err, d.file.Close())
	}
	return err
}

// spool is a temporary file for what cannot be read from anywhere, which is standard input, pipes, and what
// is packed; and for the order of the lines.
type spool struct {
	file *os.File
	size int64
	max  int64
}

// errSpool is the error of a spool that is full.
var errSpool = errors.New("accesslog: spool is full")

func (s *spool) open() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "leapgate-replay-*")
	if err != nil {
		return fmt.Errorf("accesslog: no temporary file can be made: %w", err)
	}
	s.file = f
	_ = os.Remove(f.Name()) // where that can be, it goes away with the process, however that ends
	return nil
}

// keep copies all that r has into the spool.
func (s *spool) keep(name string, r io.Reader) (*file, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	left := s.max - s.size
	n, err := io.Copy(io.NewOffsetWriter(s.file, s.size), io.LimitReader(r, left+min(1, math.MaxInt64-left)))
	if err == nil && n > left {
		return nil, fmt.Errorf("%w: %s, unpacked, and others like it take more than %d bytes", errSpool, name, s.max)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &file{name: name, data: io.NewSectionReader(s.file, s.size, n), size: n}
	s.size += n
	return f, nil
}

// write adds p to the spool.
func (s *spool) write(p []byte) error {
	if err := s.open(); err != nil {
		return err
	}
	if int64(len(p)) > s.max-s.size {
		return fmt.Errorf("%w: what is unpacked, and the order of the lines, take more than %d bytes", errSpool, s.max)
	}
	_, err := s.file.WriteAt(p, s.size)
	s.size += int64(len(p))
	return err
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name())
	return err
}

// packed are what files begin with that are packed in ways which are not read here.
var packed = []struct {
	magic   string
	program string
}{
	{"\x28\xb5\x2f\xfd", "zstd"}, {"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"PK\x03\x04", "unzip -p"}, {"\x04\x22\x4d\x18", "lz4"},
}

const gzipMagic = "\x1f\x8b"

// file returns a file that can be read anywhere: it unpacks it if it is packed.
func (l *Log) file(name string, stdin io.Reader) (*file, error) {
	if name == Stdin {
		return l.unpack("<standard input>", stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; want the files in it", name)
	}
	for _, other := range l.given {
		if info.Mode().IsRegular() && os.SameFile(info, other.info) {
			return nil, fmt.Errorf("%s is given twice, or is another name of %s", name, other.name)
		}
	}
	d := &onDisk{name: name, info: info, all: &l.open}
	l.given = append(l.given, d)
	var magic [len(gzipMagic)]byte
	if info.Mode().IsRegular() {
		n, err := d.ReadAt(magic[:], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if string(magic[:n]) != gzipMagic {
			return &file{name: name, data: d, size: info.Size()}, nil
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	kept, err := l.unpack(name, f)
	return kept, errors.Join(err, f.Close())
}

// unpack spools what r has.
func (l *Log) unpack(name string, r io.Reader) (*file, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(len(gzipMagic)); string(magic) != gzipMagic {
		return l.spool.keep(name, b)
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l.spool.keep(name, z)
}

// detect finds the format of a file by its first lines.
func (f *file) detect() error {
	const look = 100
	var first [][]byte
	in := newLines(f.section(0, f.size), 0, buffer)
	for len(first) < look {
		line, _, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		first = append(first, bytes.Clone(line))
	}
	if len(first) == 0 {
		return nil // empty, as some of those are that were rotated
	}
	format, ok := Detect(first)
	if ok {
		f.format = format
		return nil
	}
	for _, p := range packed {
		if bytes.HasPrefix(first[0], []byte(p.magic)) {
			return &UnreadableError{f.name, fmt.Sprintf("is packed, and only gzip is unpacked here; unpack it with %s", p.program)}
		}
	}
	for _, line := range first {
		if bytes.IndexByte(line, 0) >= 0 {
			return &UnreadableError{f.name, "is not a text file"}
		}
	}
	return &UnreadableError{f.name, fmt.Sprintf("is in no format that is known: none of its first %d lines can be read; the first is %.80q", len(first), first[0])}
}
