package whatif

// event is something that will happen to a call.
type event struct {
	at    int64
	order uint64 // of two at one time: see after
	call  *call
	turn  uint32 // of the call: it is void if the call has gone on meanwhile
}

// What ends at a time goes first, then those whose wait is over, and then those that come.
const (
	patient  = 1 << 62
	arriving = 1 << 63
)

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.order < f.order }

// events is a heap: the first comes next. It is not container/heap, which would allocate for
// each.
type events []event

func (es *events) push(e event) {
	h := append(*es, e)
	*es = h
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (es *events) pop() event {
	h := *es
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	*es = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(&h[child]) {
			child = right
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return first
}
