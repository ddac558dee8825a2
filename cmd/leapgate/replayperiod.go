package main

import (
	"errors"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/whatif"
)

// period is a part of a log.
type period struct{ from, to time.Time }

func periodInto(p **period) func(string) error {
	return func(text string) error {
		from, to, ok := strings.Cut(text, "..")
		read, err := period{}, error(nil)
		if read.from, err = parseTime(from); err == nil {
			read.to, err = parseTime(to)
		}
		if !ok || err != nil || !read.to.IsZero() && !read.from.Before(read.to) {
			return errors.New("want FROM..TO, such as 2024-05-12..2024-05-17 or 2024-05-12T08:00:00Z.. until the end")
		}
		*p = &read
		return nil
	}
}

// parseTime reads a time, or a day in UTC; nothing is the zero time.
func parseTime(text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.DateOnly, text); err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	return at, err
}

// of returns the requests of a source that arrived in the period. If p is nil, it returns all requests.
func (p *period) of(all whatif.Source) whatif.Source {
	if p == nil {
		return all
	}
	return func(yield func(whatif.Request, error) bool) {
		for r, err := range all {
			if err == nil && !p.to.IsZero() && !r.At.Before(p.to) {
				return
			}
			if (err != nil || !r.At.Before(p.from)) && !yield(r, err) {
				return
			}
		}
	}
}
