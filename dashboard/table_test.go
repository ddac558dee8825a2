package dashboard

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// held is what a viewer has of a table.
type held struct {
	names  map[int64]string
	values map[int64]int64
}

func (h *held) learn(t require.TestingT, text []byte) {
	var c struct {
		New  [][]any   `json:"new"`
		Rows [][]int64 `json:"rows"`
		Gone []int64   `json:"gone"`
	}
	require.NoError(t, json.Unmarshal(text, &c), string(text))
	for _, row := range c.New {
		h.names[int64(row[0].(float64))] = row[1].(string)
	}
	for _, row := range c.Rows {
		require.Contains(t, h.names, row[0])
		h.values[row[0]] = row[1]
	}
	for _, number := range c.Gone {
		require.Contains(t, h.names, number)
		delete(h.names, number)
		delete(h.values, number)
	}
}

func (h *held) all() map[string]int64 {
	all := map[string]int64{}
	for number, name := range h.names {
		all[name] = h.values[number]
	}
	return all
}

// Whenever a viewer comes, what it makes of all and of the updates after it is what there is.
func TestTable_ViewersKnowWhatThereIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := table[string, int64]{
			name:   func(b []byte, key string) []byte { return appendName(b, key) },
			values: func(b []byte, v int64) []byte { return strconv.AppendInt(append(b, ','), v, 10) },
		}
		var viewers []*held
		numbers := map[int64]string{}
		for range rapid.IntRange(1, 20).Draw(t, "updates") {
			truth := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.Int64Range(0, 3)).Draw(t, "rows")
			table.begin()
			for name, v := range truth {
				table.set(name, v)
			}
			table.end()
			for _, v := range viewers {
				v.learn(t, table.appendUpdate(nil))
			}
			if rapid.Bool().Draw(t, "one comes") {
				v := &held{map[int64]string{}, map[int64]int64{}}
				v.learn(t, table.appendAll(nil))
				viewers = append(viewers, v)
			}
			for _, v := range viewers {
				require.Equal(t, truth, v.all())
				for number, name := range v.names {
					if before, ok := numbers[number]; ok {
						require.Equal(t, before, name, "a number stands for one thing")
					}
					numbers[number] = name
				}
			}
		}
	})
}

func TestTable_NothingIsSaidOfWhatStays(t *testing.T) {
	t.Parallel()
	b := newFrameEncoder()
	b.update(reading{})
	require.JSONEq(t, `{}`, string(b.resources.appendUpdate(nil)))
	b.resources.begin()
	b.resources.set("a\xff", resourceFigures{pass: 1})
	b.resources.end()
	require.JSONEq(t, `{"new": [[1, "a\ufffd", "a%FF"]], "rows": [[1, 0,0,0,0, 0,0,0,0, 0,1,0,0,0,0,0, 0,0,0,0,0,0]]}`, string(b.resources.appendUpdate(nil)))
	b.resources.begin()
	b.resources.set("a\xff", resourceFigures{pass: 1})
	b.resources.end()
	require.JSONEq(t, `{}`, string(b.resources.appendUpdate(nil)))
	b.resources.begin()
	b.resources.end()
	require.JSONEq(t, `{"gone": [1]}`, string(b.resources.appendUpdate(nil)))
	require.JSONEq(t, `{}`, string(b.resources.appendAll(nil)))
	require.Len(t, resourceColumns, 22)
	require.Equal(t, len(resourceColumns)-1, countCommas(resourceFigures{}.append(nil)))
	require.Equal(t, len(ruleColumns)-1, countCommas(ruleFigures{}.append(nil)))
}

func countCommas(b []byte) (n int) {
	for _, c := range b {
		if c == ',' {
			n++
		}
	}
	return n
}
