package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Stdin is the name of standard input among those of files.
const Stdin = "-"

// file is a log that can be read from anywhere in it.
type file struct {
	name   string
	format Format
	data   io.ReaderAt
	size   int64
}

func (f *file) section(from, to int64) io.Reader { return io.NewSectionReader(f.data, from, to-from) }

// spool is a temporary file for what cannot be read from anywhere: standard input, pipes, and what
// is packed.
type spool struct {
	file *os.File
	size int64
	max  int64
}

// errSpool is the error of a spool that is full.
var errSpool = errors.New("accesslog: spool is full")

// keep copies all that r has into the spool.
func (s *spool) keep(name string, r io.Reader) (*file, error) {
	if s.file == nil {
		f, err := os.CreateTemp("", "leapgate-replay-*")
		if err != nil {
			return nil, err
		}
		s.file = f
		_ = os.Remove(f.Name()) // where that can be, it goes away with the process, however that ends
	}
	n, err := io.Copy(io.NewOffsetWriter(s.file, s.size), io.LimitReader(r, s.max-s.size+1))
	if err == nil && s.size+n > s.max {
		return nil, fmt.Errorf("%w: %s, unpacked, and others like it take more than %d bytes", errSpool, name, s.max)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &file{name: name, data: io.NewSectionReader(s.file, s.size, n), size: n}
	s.size += n
	return f, nil
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

// open opens a file, and unpacks it if it is packed.
func (l *Log) open(name string, stdin io.Reader) (*file, error) {
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
	for _, other := range l.opened {
		if same, err := other.Stat(); err == nil && info.Mode().IsRegular() && os.SameFile(info, same) {
			return nil, fmt.Errorf("%s is given twice, or is another name of %s", name, other.Name())
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l.opened = append(l.opened, f)
	if !info.Mode().IsRegular() {
		return l.unpack(name, f) // a pipe
	}
	var magic [len(gzipMagic)]byte
	if n, _ := f.ReadAt(magic[:], 0); string(magic[:n]) == gzipMagic {
		return l.unpack(name, f)
	}
	return &file{name: name, data: f, size: info.Size()}, nil
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
