package param

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/frequent"
	"github.com/leapgate-go/leapgate/stat"
)

// top finds the values that calls come with most often, and those that are refused most. It
// goes over from one check of a rule to the next. Nil finds none.
type top struct{ busiest, refused *frequent.Keys }

// newTop makes room for more values than are shown: the more there is, the smaller is the
// error of those.
func newTop(most int) *top {
	counts := 4*most + 60
	return &top{frequent.New(counts), frequent.New(counts)}
}

// probes reports whether a rule only finds such values.
func probes(r *Rule) bool { return r.Top > 0 && r.Threshold == 0 && r.MaxInFlight == 0 }

// snapshotOf returns the most frequent keys as the values of those arguments.
func snapshotOf(keys *frequent.Keys, r *Rule, args []string) []stat.ValueCount {
	all := keys.Top(r.Top)
	counts := make([]stat.ValueCount, len(all))
	for i, k := range all {
		counts[i] = stat.ValueCount{Value: valueOf(k.Key, len(args)), Count: k.Count, Excess: k.Excess}
	}
	return counts
}

// valueOf is a key as people may read it: the value itself, or the values of several arguments
// in quotes, with commas between them.
func valueOf(key string, args int) string {
	if args == 1 {
		return key
	}
	if sum, hashed := strings.CutPrefix(key, hashed); hashed {
		return "hash " + hex.EncodeToString([]byte(sum))
	}
	var s strings.Builder
	for range args - 1 {
		length, n := binary.Uvarint([]byte(key))
		key = key[n:]
		s.WriteString(strconv.Quote(key[:length]) + ",")
		key = key[length:]
	}
	return s.String() + strconv.Quote(key)
}
