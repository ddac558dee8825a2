package accesslog

// found are the paths of a log, taken apart at their slashes. A segment that is a number or the
// like, or that has too many values, stands for any. What comes of it does not depend on the order
// of the lines, unless there are more than maxNodes.
type found struct {
	root  segment
	nodes int
	full  bool // not all had a place
}

// segment is where a path may have come to.
type segment struct {
	next      map[string]*segment // by what the next one is; that of a slash at the end is ""
	any       *segment            // whatever it is
	collapsed bool                // there were too many values: all but "" are in any
	ends      bool                // whether a path ends here
	path      string              // all the way, once finish is called
	names     names
}

const (
	maxValues  = 50      // of a segment
	maxDepth   = 12      // segments; the rest of a path is one
	maxSegment = 64      // bytes; a longer one is a value
	maxNodes   = 100_000 // as long as not all lines are read
	anyValue   = "{}"
)

// note adds a path, which begins with a slash.
func (f *found) note(path []byte) {
	n := &f.root
	var s []byte
	for depth := 1; path != nil && n != nil; depth++ {
		s, path = cutSegment(path)
		switch next := n.next[string(s)]; {
		case depth == maxDepth && path != nil:
			path, n = nil, f.anyOf(n)
		case next != nil:
			n = next
		case len(s) > 0 && (n.collapsed || isValue(s)):
			n = f.anyOf(n)
		default:
			n = f.add(n, string(s))
		}
	}
	if n != nil {
		n.ends = true
	}
}

func (f *found) anyOf(n *segment) *segment {
	if n.any == nil {
		n.any = f.segment()
	}
	return n.any
}

// add adds a value to a segment, which may be one too many.
func (f *found) add(n *segment, s string) *segment {
	next := f.segment()
	if next == nil {
		return nil
	}
	if n.next == nil {
		n.next = make(map[string]*segment)
	}
	n.next[s] = next
	f.collapse(n)
	if n.collapsed && s != "" {
		return n.any
	}
	return next
}

func (f *found) segment() *segment {
	if f.nodes == maxNodes {
		f.full = true
		return nil
	}
	f.nodes++
	return new(segment)
}

// collapse has any stand for all values of a segment, if there are too many.
func (f *found) collapse(n *segment) {
	values := len(n.next)
	if n.next[""] != nil {
		values--
	}
	if values <= maxValues && !n.collapsed {
		return
	}
	n.collapsed = true
	for s, next := range n.next {
		if s != "" {
			delete(n.next, s)
			n.any = f.merge(n.any, next)
		}
	}
}

// merge has one segment stand for two.
func (f *found) merge(n, other *segment) *segment {
	if n == nil || other == nil {
		if n == nil {
			n = other
		}
		return n
	}
	f.nodes--
	n.ends = n.ends || other.ends
	n.collapsed = n.collapsed || other.collapsed
	n.any = f.merge(n.any, other.any)
	if n.next == nil {
		n.next = make(map[string]*segment)
	}
	for s, next := range other.next {
		n.next[s] = f.merge(n.next[s], next)
	}
	f.collapse(n)
	return n
}

// finish names what was found, before anything is looked for. It returns how many paths there are.
func (f *found) finish() int { return f.root.finish("") }

func (n *segment) finish(path string) (paths int) {
	n.path = path
	if n.ends {
		paths++
	}
	if n.any != nil {
		paths += n.any.finish(path + "/" + anyValue)
	}
	for s, next := range n.next {
		paths += next.finish(path + "/" + s)
	}
	return paths
}

// find returns what a path is one of, nil if there is nothing.
func (f *found) find(path []byte) *segment {
	n := &f.root
	var s []byte
	for depth := 1; path != nil && n != nil; depth++ {
		s, path = cutSegment(path)
		switch next := n.next[string(s)]; {
		case depth == maxDepth && path != nil:
			path, n = nil, n.any
		case next != nil:
			n = next
		case len(s) == 0:
			n = nil
		default:
			n = n.any
		}
	}
	if n == nil || !n.ends {
		return nil
	}
	return n
}

// isValue reports whether a segment is one of many by the looks of it: a number, a date, an
// address, a UUID, a hash, or very long.
func isValue(s []byte) bool {
	digits, hex, others := 0, 0, 0
	for _, b := range s {
		switch {
		case isDigit(b):
			digits++
		case 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F':
			hex++
		case b != '-' && b != '_' && b != '.' && b != ':' && b != ',':
			others++
		}
	}
	switch {
	case len(s) > maxSegment:
		return true
	case others > 0 || digits == 0:
		return false
	}
	return hex == 0 || digits+hex >= 16
}
