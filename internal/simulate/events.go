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

// events is a heap, by time.
type events []*event

func (es events) Len() int { return len(es) }

func (es events) Less(i, j int) bool {
	a, b := es[i], es[j]
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}

func (es events) Swap(i, j int) { es[i], es[j] = es[j], es[i] }

func (es *events) Push(e any) { *es = append(*es, e.(*event)) }

func (es *events) Pop() any {
	last := len(*es) - 1
	e := (*es)[last]
	*es = (*es)[:last]
	return e
}
