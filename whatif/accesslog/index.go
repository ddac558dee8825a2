package accesslog

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// place is where a line with a request stands, and what decides its order.
type place struct {
	at    int64  // when the request arrived
	where uint64 // the file and the offset in it: see newPlace
	sum   uint32 // of the line, for those that arrived at the same time
	size  uint32 // of the line, in bytes
}

const (
	offsetBits = 48
	maxFiles   = 1 << (64 - offsetBits)
	placeSize  = 24 // in the spool, in bytes
)

func newPlace(at int64, file int, offset int64, sum uint32, size int) place {
	return place{at, uint64(file)<<offsetBits | uint64(offset), sum, uint32(size)}
}

func (p *place) file() int     { return int(p.where >> offsetBits) }
func (p *place) offset() int64 { return int64(p.where & (1<<offsetBits - 1)) }

func (p place) compare(q place) int {
	switch {
	case p.at != q.at:
		return cmp.Compare(p.at, q.at)
	default:
		return cmp.Compare(p.sum, q.sum)
	}
}

// index has the places of all requests, in the order of their arrival when it is finished: an
// external sort. What is too much for memory is sorted in parts, which stand in the spool.
type index struct {
	spool    *spool
	most     int     // places in memory
	places   []place // that are
	unsorted bool    // some of them is before one above it
	parts    []part
}

const (
	maxPlaces = 1 << 17
	atOnce    = 128 // places that are read or written
)

// add adds a place.
func (x *index) add(p place) error {
	n := len(x.places)
	if n == x.most {
		if err := x.write(); err != nil {
			return err
		}
	} else if n > 0 && p.at < x.places[n-1].at {
		x.unsorted = true
	}
	x.places = append(x.places, p)
	return nil
}

// sort sorts what is in memory. In many logs, only what arrived at the same time is in another
// order.
func (x *index) sort() {
	if x.unsorted {
		slices.SortFunc(x.places, place.compare)
		x.unsorted = false
		return
	}
	for rest := x.places; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].at == rest[0].at {
			n++
		}
		slices.SortFunc(rest[:n], place.compare)
		rest = rest[n:]
	}
}

// write puts what is in memory into the spool.
func (x *index) write() error {
	x.sort()
	x.parts = append(x.parts, part{spool: x.spool, from: x.spool.size, left: len(x.places)})
	buf := make([]byte, 0, atOnce*placeSize)
	for all := range slices.Chunk(x.places, atOnce) {
		buf = buf[:0]
		for i := range all {
			p := &all[i]
			buf = binary.LittleEndian.AppendUint64(buf, uint64(p.at))
			buf = binary.LittleEndian.AppendUint64(buf, p.where)
			buf = binary.LittleEndian.AppendUint32(buf, p.sum)
			buf = binary.LittleEndian.AppendUint32(buf, p.size)
		}
		if err := x.spool.write(buf); err != nil {
			return err
		}
	}
	x.places = x.places[:0]
	return nil
}

// finish is called when all places are there.
func (x *index) finish() error {
	if len(x.parts) == 0 {
		x.sort()
		return nil
	}
	err := x.write()
	x.places = nil
	return err
}

// part is sorted places, of which some are still in the spool.
type part struct {
	ready []place // the next ones
	spool *spool
	from  int64
	left  int
	raw   []byte
}

// fill reads places if none are ready, and as long as there are any.
func (p *part) fill() error {
	n := min(p.left, atOnce)
	if len(p.ready) > 0 || n == 0 {
		return nil
	}
	if p.raw == nil {
		p.raw = make([]byte, n*placeSize)
	}
	raw := p.raw[:n*placeSize]
	if _, err := p.spool.file.ReadAt(raw, p.from); err != nil {
		return err
	}
	p.left, p.from = p.left-n, p.from+int64(len(raw))
	p.ready = slices.Grow(p.ready[:0], n)[:n]
	for i := range p.ready {
		b := raw[i*placeSize:]
		p.ready[i] = place{
			at: int64(binary.LittleEndian.Uint64(b)), where: binary.LittleEndian.Uint64(b[8:]),
			sum: binary.LittleEndian.Uint32(b[16:]), size: binary.LittleEndian.Uint32(b[20:]),
		}
	}
	return nil
}

// sorted merges the parts of an index: they are a heap by their first places.
type sorted []*part

// all returns the places in order.
func (x *index) all() (s sorted, err error) {
	if len(x.places) > 0 {
		s = append(s, &part{ready: x.places})
	}
	for _, p := range x.parts {
		if err := p.fill(); err != nil {
			return nil, err
		}
		s = append(s, &p)
	}
	for i := len(s)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
	return s, nil
}

// next returns the next place; ok is false after the last one.
func (s *sorted) next() (next place, ok bool, err error) {
	if len(*s) == 0 {
		return next, false, nil
	}
	first := (*s)[0]
	next, first.ready = first.ready[0], first.ready[1:]
	if err := first.fill(); err != nil {
		return next, false, err
	}
	if last := len(*s) - 1; len(first.ready) == 0 {
		(*s)[0], *s = (*s)[last], (*s)[:last]
	}
	s.down(0)
	return next, true, nil
}

// down lets a part sink to where it belongs.
func (s sorted) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s[child].ready[0].compare(s[least].ready[0]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
