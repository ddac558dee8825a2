package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A request is one that somebody has made.
type request struct {
	at  int64 // nanoseconds of Unix time
	key string
}

// A traffic is the requests of one file, in time.
type traffic struct {
	name     string
	window   time.Duration
	limits   []int64 // from tight to loose
	requests []request
}

// read reads both files of a folder. A file that is not there is left out.
func read(folder string) ([]traffic, error) {
	var all []traffic
	for _, file := range []struct {
		name    string
		parse   func(io.Reader) ([]request, error)
		windows []time.Duration
		limits  [][]int64
	}{
		{
			"azure_llm_code.csv", parseCSV,
			[]time.Duration{time.Minute, time.Second},
			[][]int64{{50, 150, 300, 450, 600, 720}, {2, 5, 10, 20, 40, 60}},
		},
		{
			"access.log", parseLog,
			[]time.Duration{time.Minute},
			[][]int64{{2, 5, 10, 20, 40, 80}},
		},
	} {
		f, err := os.Open(filepath.Join(folder, file.name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		requests, err := file.parse(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.name, err)
		}
		slices.SortStableFunc(requests, func(a, b request) int { return time.Unix(0, a.at).Compare(time.Unix(0, b.at)) })
		for i, window := range file.windows {
			all = append(all, traffic{file.name, window, file.limits[i], requests})
		}
	}
	return all, nil
}

// parseCSV reads lines that begin with a time. All requests have one key.
func parseCSV(r io.Reader) ([]request, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	var requests []request
	for i, line := range lines {
		at, err := time.Parse("2006-01-02 15:04:05.9999999", line[0])
		if err != nil {
			if i == 0 {
				continue // the names of the columns
			}
			return nil, err
		}
		requests = append(requests, request{at.UnixNano(), "all"})
	}
	return requests, nil
}

// parseLog reads the clients and times of a log in the combined format. Malformed lines
// are passed over.
func parseLog(r io.Reader) ([]request, error) {
	var requests []request
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		head, rest, ok := strings.Cut(lines.Text(), " [")
		client, _, named := strings.Cut(head, " ")
		stamp, _, closed := strings.Cut(rest, "] \"")
		if !ok || !named || !closed || client == "" {
			continue
		}
		if at, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp); err == nil {
			requests = append(requests, request{at.UnixNano(), client})
		}
	}
	return requests, lines.Err()
}
