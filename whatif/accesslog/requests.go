package accesslog

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/whatif"
)

// Requests is a [whatif.Source]: it yields the requests in the order of their arrival. Those that
// arrived at the same time come in an order that does not depend on that of their lines, and
// that is no order by client or path: by a sum of the line. A Log is read by one goroutine at a time.
func (l *Log) Requests(yield func(whatif.Request, error) bool) {
	if err := l.requests(func(r whatif.Request) bool { return yield(r, nil) }); err != nil {
		yield(whatif.Request{}, err)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (l *Log) requests(yield func(whatif.Request) bool) error {
	places, err := l.index.all()
	if err != nil {
		return err
	}
	formats := make([]Format, len(l.files))
	for i, f := range l.files {
		formats[i] = f.format.Clone()
	}
	var in blocks
	var rec Record
	var same alike
	last := place{}
	for {
		p, ok, err := places.next()
		if err != nil {
			return err
		}
		if p.at != last.at || p.sum != last.sum || !ok {
			if !same.yield(yield) || !ok {
				return nil
			}
			last = p
		}
		f := l.files[p.file()]
		line, err := in.line(f, p.offset(), int(p.size))
		if err != nil {
			return err
		}
		if crc32.Checksum(line, castagnoli) != p.sum || formats[p.file()].Parse(line, &rec) != nil {
			return fmt.Errorf("%s: %w", f.name, errChanged)
		}
		same.add(whatif.Request{
			At: time.Unix(0, p.at).UTC(), Resource: l.routes.resource(&rec), Key: keyOf(&rec, l.key), Duration: max(0, rec.Duration),
			Status: rec.Status, Cost: rec.Cost, Refused: wasRefused(&rec),
		})
	}
}

// wasRefused reports whether a request was refused then, by the proxy or by what is behind it.
func wasRefused(r *Record) bool { return r.Refused || r.Status == http.StatusTooManyRequests }

// alike are requests that arrived at the same time, of lines with the same sum. There is mostly one, or
// their lines are the same.
type alike []counted

type counted struct {
	whatif.Request
	n int
}

func (a *alike) add(r whatif.Request) {
	if n := len(*a); n > 0 && (*a)[n-1].compare(&r) == 0 {
		(*a)[n-1].n++
		return
	}
	*a = append(*a, counted{r, 1})
}

// yield yields them in an order that does not depend on that in which they were added.
func (a *alike) yield(yield func(whatif.Request) bool) bool {
	if len(*a) > 1 {
		slices.SortFunc(*a, func(r, other counted) int { return r.compare(&other.Request) })
	}
	for i := range *a {
		for range (*a)[i].n {
			if !yield((*a)[i].Request) {
				return false
			}
		}
	}
	*a = (*a)[:0]
	return true
}

func (r *counted) compare(other *whatif.Request) int {
	refused := func(r *whatif.Request) int {
		if r.Refused {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(r.Resource, other.Resource), strings.Compare(r.Key, other.Key), cmp.Compare(r.Duration, other.Duration),
		cmp.Compare(r.Status, other.Status), cmp.Compare(r.Cost, other.Cost), refused(&r.Request)-refused(other))
}
