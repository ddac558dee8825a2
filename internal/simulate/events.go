package simulate

// event is something that will happen.
type event struct {
	at     int64
	serial int // of two at one time, the one comes first that was planned first
	kind   kind
	call   *call
}

type kind uint8

const (
	ready kind = iota // a call wants a server
	done              // a server has done with a call
	tick
)

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.serial < f.serial }

// events is a heap: the first comes next. It is not container/heap, which would allocate for
// each.
type events []event

func (es *events) push(e event) {
	h := append(*es, e)
	*es = h
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (es *events) pop() event {
	h := *es
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	*es = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if right := child + 1; right < last && h[right].before(&h[child]) {
			child = right
		}
		if !h[child].before(&h[i]) {
			return first
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
