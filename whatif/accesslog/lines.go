package accesslog

import (
	"bufio"
	"errors"
	"io"
)

// maxLine is how long a line may be, in bytes.
const maxLine = 1 << 20

// lines reads lines, and knows where they stand.
type lines struct {
	r      *bufio.Reader
	offset int64  // of the next line
	long   []byte // a line that is longer than the buffer
}

func newLines(r io.Reader, offset int64, buffer int) *lines {
	return &lines{r: bufio.NewReaderSize(r, buffer), offset: offset}
}

// next returns a line without its end, good until the next call, and whether it was too long:
// then it is only its beginning. The error is io.EOF after the last line.
func (l *lines) next() (line []byte, tooLong bool, err error) {
	line, err = l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	if err == bufio.ErrBufferFull { //nolint:errorlint // it is never wrapped, and this is asked of every line
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			l.offset += int64(len(line))
			if tooLong = tooLong || len(l.long)+len(line) > maxLine; !tooLong {
				l.long = append(l.long, line...)
			}
		}
		line = l.long
	}
	if err != nil && errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the last line has no end
	}
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, tooLong, err
}
