package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

type accessLog struct {
	requests  []request // by time; those of one second as in the file
	lines     int       // the malformed ones too
	malformed int
	samples   []badLine // the first few malformed lines
	backwards int       // how often a request is older than the one before it in the file
}

type badLine struct {
	number int    // from 1
	text   string // its beginning
	err    error
}

const (
	maxLine    = 1 << 20 // bytes; longer lines are malformed
	maxSamples = 3
	maxSample  = 60 // bytes
)

var errLong = fmt.Errorf("more than %d bytes", maxLine)

// readLog reads a log in the combined format. Real logs have malformed lines:
// they are counted, and passed over.
func readLog(r io.Reader) (*accessLog, error) {
	log := &accessLog{}
	reader := bufio.NewReaderSize(r, maxLine)
	var last time.Time
	for {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLong) {
			return nil, err
		}
		log.lines++
		var q request
		if err == nil {
			q, err = parseLine(line)
		}
		if err != nil {
			log.malformed++
			if len(log.samples) < maxSamples {
				log.samples = append(log.samples, badLine{log.lines, line[:min(len(line), maxSample)], err})
			}
			continue
		}
		if q.at.Before(last) {
			log.backwards++
		}
		last = q.at
		log.requests = append(log.requests, q)
	}
	// A gate's clock should not go back.
	slices.SortStableFunc(log.requests, func(a, b request) int { return a.at.Compare(b.at) })
	return log, nil
}

// readLine returns a line without its end. Of a line that is too long it returns the
// beginning and errLong, and passes over the rest.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the last line has no end
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		beginning := string(line[:maxSample])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return beginning, errLong
	}
	return strings.TrimRight(string(line), "\r\n"), err
}

// A request is what one line of the log says.
type request struct {
	at   time.Time // to the second
	path string    // without its query; empty if the client sent nothing like HTTP
}

// What may be wrong with a line.
var (
	errHead    = errors.New("no host, name, user and [time]")
	errTime    = errors.New("no time such as [20/May/2024:00:00:18 +0000]")
	errRequest = errors.New(`no "request" in quotes`)
	errStatus  = errors.New("no status and size")
	errAgent   = errors.New(`no "referer" and "user agent" in quotes`)
)

// parseLine reads a line in the combined format:
//
//	host name user [time] "request" status size "referer" "user agent"
//
// There may be more at the end, as many servers are told to write.
func parseLine(line string) (request, error) {
	head, rest, ok := strings.Cut(line, " [")
	if !ok || strings.Count(head, " ") < 2 {
		return request{}, errHead
	}
	stamp, rest, _ := strings.Cut(rest, "] ")
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp)
	if err != nil || at.Year() < 1970 || at.Year() > 2200 { // far from what nanoseconds in an int64 can tell
		return request{}, errTime
	}
	sent, rest, ok := cutQuoted(rest)
	if !ok {
		return request{}, errRequest
	}
	status, rest, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
	size, rest, _ := strings.Cut(rest, " ")
	if len(status) != 3 || !isNumber(status) || size != "-" && !isNumber(size) {
		return request{}, errStatus
	}
	_, rest, hasReferer := cutQuoted(rest)
	_, _, hasAgent := cutQuoted(strings.TrimPrefix(rest, " "))
	if !hasReferer || !hasAgent {
		return request{}, errAgent
	}
	return request{at: at.UTC(), path: pathOf(sent)}, nil
}

// cutQuoted takes a quoted text off the beginning of s, as it stands in the log.
func cutQuoted(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++ // Apache writes \" for a quote; nginx writes \x22
		case '"':
			return s[1:i], s[i+1:], true
		}
	}
	return "", s, false
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

// pathOf returns the path of what a client sent, such as "GET /orders?page=2 HTTP/1.1".
// Clients send all kinds of things: what is not HTTP has an empty path.
func pathOf(sent string) string {
	parts := strings.Split(sent, " ")
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "HTTP/") {
		return ""
	}
	path, _, _ := strings.Cut(parts[1], "?")
	return strings.Clone(path) // not to keep the line with it
}
