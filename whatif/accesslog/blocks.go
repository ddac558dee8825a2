package accesslog

import (
	"errors"
	"fmt"
	"io"
)

// blocks reads lines from anywhere in files. It keeps parts of them in memory, since lines that
// follow each other in time mostly stand near each other.
type blocks struct {
	kept [maxBlocks]block
	long []byte // a line that is not whole in one of them
}

type block struct {
	file   *file
	number int64
	data   []byte
}

const (
	maxBlocks = 512
	blockSize = 8 << 10
	overhang  = 1 << 10 // what a block has of the next one, for its last line
)

var errChanged = errors.New("the log has changed since it was opened")

// line returns a line, good until the next call.
func (b *blocks) line(f *file, offset int64, size int) ([]byte, error) {
	number, from := offset/blockSize, int(offset%blockSize)
	if from+size > blockSize+overhang {
		b.long = append(b.long[:0], make([]byte, size)...)
		return b.long, f.read(b.long, offset)
	}
	kept := &b.kept[uint64(number+int64(f.number)*0x9E3779B1)%maxBlocks]
	if kept.file != f || kept.number != number {
		if kept.data == nil {
			kept.data = make([]byte, blockSize+overhang)
		}
		begin := number * blockSize
		kept.file = nil // as long as there may be an error
		kept.data = kept.data[:min(blockSize+overhang, f.size-begin)]
		if err := f.read(kept.data, begin); err != nil {
			return nil, err
		}
		kept.file, kept.number = f, number
	}
	return kept.data[from : from+size], nil
}

// read fills p with what the file has from an offset on.
func (f *file) read(p []byte, offset int64) error {
	_, err := f.data.ReadAt(p, offset)
	if errors.Is(err, io.EOF) {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}
