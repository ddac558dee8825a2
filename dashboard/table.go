package dashboard

import (
	"cmp"
	"slices"
	"strconv"
)

// table is what viewers have of the resources, or of the rules: a row for each, under a number
// that stands for it, and what the last update changed.
type table[K, V comparable] struct {
	columns []string
	name    func(b []byte, key K) []byte // appends what a row is called, in JSON
	values  func(b []byte, value V) []byte

	rows    map[K]*row[K, V]
	newest  int64 // the number that was given last
	updates int64

	fresh, changed, gone []*row[K, V]
}

type row[K, V comparable] struct {
	key    K
	value  V
	number int64
	seen   int64 // the update that had it last
}

// begin begins an update, in which set is called for each row, once.
func (t *table[K, V]) begin() {
	if t.rows == nil {
		t.rows = make(map[K]*row[K, V])
	}
	t.updates++
	t.fresh, t.changed, t.gone = t.fresh[:0], t.changed[:0], t.gone[:0]
}

func (t *table[K, V]) set(key K, value V) {
	r := t.rows[key]
	switch {
	case r == nil:
		t.newest++
		r = &row[K, V]{key: key, value: value, number: t.newest}
		t.rows[key] = r
		t.fresh = append(t.fresh, r)
	case r.value != value:
		r.value = value
		t.changed = append(t.changed, r)
	}
	r.seen = t.updates
}

// end ends an update: rows that were not set are gone.
func (t *table[K, V]) end() {
	for key, r := range t.rows {
		if r.seen != t.updates {
			t.gone = append(t.gone, r)
			delete(t.rows, key)
		}
	}
}

func (t *table[K, V]) appendUpdate(b []byte) []byte {
	return t.append(b, t.fresh, t.changed, t.gone)
}

func (t *table[K, V]) appendAll(b []byte) []byte {
	all := make([]*row[K, V], 0, len(t.rows))
	for _, r := range t.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row[K, V]) int { return cmp.Compare(a.number, b.number) })
	return t.append(b, all, nil, nil)
}

func (t *table[K, V]) append(b []byte, fresh, changed, gone []*row[K, V]) []byte {
	b = append(b, '{')
	comma := false
	list := func(name string) {
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(append(append(b, '"'), name...), `":[`...)
	}
	if len(fresh) > 0 {
		list("new")
		for _, r := range fresh {
			b = append(t.name(append(strconv.AppendInt(append(b, '['), r.number, 10), ','), r.key), ']', ',')
		}
		b[len(b)-1] = ']'
	}
	if len(fresh)+len(changed) > 0 {
		list("rows")
		for _, some := range [...][]*row[K, V]{fresh, changed} {
			for _, r := range some {
				b = append(t.values(strconv.AppendInt(append(b, '['), r.number, 10), r.value), ']', ',')
			}
		}
		b[len(b)-1] = ']'
	}
	if len(gone) > 0 {
		list("gone")
		for _, r := range gone {
			b = append(strconv.AppendInt(b, r.number, 10), ',')
		}
		b[len(b)-1] = ']'
	}
	return append(b, '}')
}
