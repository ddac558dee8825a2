package keys

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// value expires at a time, and can be dead.
type value struct {
	until atomic.Int64 // math.MinInt64: dead
	begun int64
}

const isDead = math.MinInt64

var rules = Rules[value]{
	Init: func(n *Node[value], now, until int64) {
		n.Value.begun = now
		n.Value.until.Store(until)
	},
	Inspect: func(n *Node[value], now int64) (uint64, bool) {
		until := n.Value.until.Load()
		return uint64(until), until <= now
	},
	Kill: func(n *Node[value], now int64, force bool) bool {
		for {
			until := n.Value.until.Load()
			if !force && until > now {
				return false
			}
			if n.Value.until.CompareAndSwap(until, isDead) {
				return true
			}
		}
	},
}

const forever = math.MaxInt64

func (t *Table[V]) find(key string) *Node[V] { return t.Find(t.Hash(key), key) }

func findOrMake(t *Table[value], key string, now, until int64) *Node[value] {
	n, _, _ := t.FindOrMake(t.Hash(key), key, now, until)
	return n
}

// Two are in one cache line only if both are looked at together.
func TestTable_Layout(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(line[byte]{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(shard{}), uintptr(64))
	require.Equal(t, uintptr(16), unsafe.Sizeof(Node[atomic.Uint64]{}), "a counter has 16 bytes beside its key")
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.Equal(t, uintptr(64), unsafe.Sizeof(line[byte]{}))
		require.Equal(t, uintptr(64), unsafe.Sizeof(shard{}))
	}
}

func TestNode_HoldsAnyKey(t *testing.T) {
	t.Parallel()
	for length := range MaxLength + 1 {
		key := strings.Repeat("\x00é\n", MaxLength)[:length]
		n := NewNode[atomic.Uint64](key, uint32(length)*12345)
		require.Equal(t, key, n.Key())
		require.EqualValues(t, length*12345%(MaxGeneration+1), n.Generation())
	}
	require.Panics(t, func() { NewNode[value](strings.Repeat("k", MaxLength+1), 0) })
}

func TestTable_KeepsItsOwnKeys(t *testing.T) {
	t.Parallel()
	table := New(10, false, rules)
	buffer := []byte("key")
	n := findOrMake(table, unsafe.String(&buffer[0], 3), 0, forever)
	buffer[0] = 'x'
	require.Equal(t, "key", n.Key())
	require.Same(t, n, table.find("key"))
	require.Nil(t, table.find("xey"))
}

// The naive truth is a map.
func TestTable_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 2, 7, 8, 50, 1000}).Draw(t, "most")
		evict := rapid.Bool().Draw(t, "evict")
		table := New(most, evict, rules)
		truth := make(map[string]*Node[value])
		var now int64
		drawKey := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 2*most+5).Draw(t, "key")) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for key, n := range truth {
					dead := n.Value.until.Load() == isDead
					if got := table.find(key); dead && got == n || !dead && got != n {
						t.Fatalf("%q is %p, and %p is in the table; dead: %v", key, n, got, dead)
					}
					if dead {
						delete(truth, key)
					}
				}
				if table.Len() != len(truth) || len(truth) > most {
					t.Fatalf("%d keys of %d, and %d in the table", len(truth), most, table.Len())
				}
			},
			"find or make": func(t *rapid.T) {
				now += rapid.Int64Range(0, 5).Draw(t, "step")
				key := drawKey(t)
				at := now - rapid.Int64Range(0, 2).Draw(t, "late")
				n, begun, made := table.FindOrMake(table.Hash(key), key, at, at+rapid.Int64Range(0, 30).Draw(t, "lasts"))
				switch {
				case n == nil:
					if evict || len(truth) < most || truth[key] != nil {
						t.Fatalf("no room for %q among %d of %d", key, len(truth), most)
					}
				case made:
					if n.Key() != key || truth[key] != nil && truth[key].Value.until.Load() != isDead || begun < at || n.Value.begun != begun {
						t.Fatalf("%q was made as %q, although there is %v", key, n.Key(), truth[key])
					}
					truth[key] = n
				case truth[key] != n:
					t.Fatalf("%q is %p, and FindOrMake returned %p", key, truth[key], n)
				}
			},
			"many": func(t *rapid.T) { // so that shards grow
				for i := range rapid.IntRange(0, most).Draw(t, "how many") {
					key := fmt.Sprint("m", i)
					if n, _, made := table.FindOrMake(table.Hash(key), key, now, now+50); made {
						truth[key] = n
					}
				}
			},
			"delete": func(t *rapid.T) {
				key := drawKey(t)
				if got, want := table.Delete(table.Hash(key), key), truth[key] != nil; got != want {
					t.Fatalf("deleted %q: %v, want %v", key, got, want)
				}
			},
			"sweep": func(t *rapid.T) {
				now += rapid.Int64Range(0, 40).Draw(t, "step")
				table.Sweep(now)
				for key, n := range truth {
					if until := n.Value.until.Load(); until != isDead && until <= now {
						t.Fatalf("%q has expired and is still there", key)
					}
				}
			},
		})
	})
}

func TestTable_GrowsAndShrinks(t *testing.T) {
	t.Parallel()
	const many = 20_000
	table := New(many, false, rules)
	for i := range many {
		require.NotNil(t, findOrMake(table, fmt.Sprint(i), 0, 100))
	}
	require.Equal(t, many, table.Len())
	for i := range many {
		require.Equal(t, fmt.Sprint(i), table.find(fmt.Sprint(i)).Key())
	}
	require.Nil(t, table.find(fmt.Sprint(many)))
	require.Nil(t, findOrMake(table, "one more", 99, 200))
	require.False(t, table.Room(table.Hash("one more"), 99))
	require.True(t, table.Room(table.Hash("one more"), 100))
	table.Sweep(100)
	require.Zero(t, table.Len())
	require.EqualValues(t, many, table.Expired())
	for i := range table.shards {
		require.Nil(t, table.heads[i].Load())
	}

	for i := range many {
		findOrMake(table, fmt.Sprint(i), 100, 200+int64(i%10))
	}
	full := len(table.heads[0].Load().line)
	table.Sweep(208)
	require.Equal(t, many/10, table.Len())
	require.Less(t, len(table.heads[0].Load().line), full)
	for i := 9; i < many; i += 10 {
		require.NotNil(t, table.find(fmt.Sprint(i)))
	}
}

// What has expired goes before what has not, and the coldest of a few goes first.
func TestTable_WhoGoes(t *testing.T) {
	t.Parallel()
	table := New(8, true, rules)
	for i := range int64(8) {
		findOrMake(table, fmt.Sprint(i), 0, 10+i)
	}
	require.NotNil(t, findOrMake(table, "a", 0, 100))
	require.Nil(t, table.find("0"), "the coldest of all")
	require.EqualValues(t, 1, table.Evicted())

	require.NotNil(t, findOrMake(table, "b", 13, 100))
	require.EqualValues(t, 1, table.Evicted(), "nobody else had to go")
	require.Positive(t, table.Expired())
	table.Sweep(13)
	for _, key := range []string{"1", "2", "3"} {
		require.Nil(t, table.find(key), "expired")
	}
	require.EqualValues(t, 3, table.Expired())
	require.Equal(t, 6, table.Len())
}

// A rule that panics breaks the call that met it, and no other.
func TestTable_ARulePanicsAndNoLockIsKept(t *testing.T) {
	t.Parallel()
	broken := false
	fragile := rules
	fragile.Inspect = func(n *Node[value], now int64) (uint64, bool) {
		if broken {
			panic("broken")
		}
		return rules.Inspect(n, now)
	}
	table := New(1, true, fragile)
	findOrMake(table, "a", 0, forever)
	hash := table.Hash("a")
	for name, call := range map[string]func(){
		"FindOrMake": func() { findOrMake(table, "b", 0, forever) },
		"Sweep":      func() { table.Sweep(0) },
		"SweepFew":   func() { table.SweepFew(hash, 0) },
	} {
		broken = true
		require.Panics(t, call, name)
		broken = false
		mu := &table.shardOf(hash).mu
		require.True(t, mu.TryLock(), name)
		mu.Unlock()
		require.NotPanics(t, call, name)
	}
}

// Nothing begins in a time that was forgotten.
func TestTable_NoNodeBeginsBeforeWhatExpired(t *testing.T) {
	t.Parallel()
	table := New(8, false, rules)
	findOrMake(table, "a", 0, 10)
	table.Sweep(50)
	n := findOrMake(table, "a", 5, 100) // by a caller whose reading of the clock is old
	require.EqualValues(t, 50, n.Value.begun)
	n = findOrMake(table, "b", 60, 100)
	require.EqualValues(t, 60, n.Value.begun)
}

// New keys clear away what has expired, so that a table that is not full does not keep it.
func TestTable_ClearsAwayAsItGoes(t *testing.T) {
	t.Parallel()
	const perRound, rounds = 2000, 50
	table := New(1_000_000, false, rules)
	for round := range int64(rounds) {
		for i := range perRound {
			findOrMake(table, fmt.Sprint(round, i), round, round+1)
		}
	}
	require.Less(t, table.Len(), 4*perRound)
}

// The race: look-ups against the growth, the clearing away and the eviction of the table.
// A key that is never taken out is always found, and nobody gets another's node.
func TestTable_HammerLookUps(t *testing.T) {
	t.Parallel()
	const stay, churn, turns = 100, 3000, 30_000
	table := New(stay+churn/3, true, rules)
	for i := range stay {
		findOrMake(table, fmt.Sprint("s", i), 0, forever)
	}
	var done sync.WaitGroup
	for id := range 4 {
		done.Go(func() {
			for i := range turns {
				key := fmt.Sprint("c", (i*7+id)%churn)
				switch i % 10 {
				case 8:
					table.Delete(table.Hash(key), key)
				case 9:
					if i%1000 == 9 {
						table.Sweep(int64(i))
					}
				default:
					if n := findOrMake(table, key, int64(i), int64(i)+100); n == nil || n.Key() != key {
						t.Errorf("%q got %v", key, n)
					}
				}
			}
		})
		done.Go(func() {
			for i := range turns {
				key := fmt.Sprint("s", (i+id)%stay)
				if n := table.find(key); n == nil || n.Key() != key || n.Value.until.Load() != forever {
					t.Errorf("%q has %v", key, n)
				}
			}
		})
	}
	done.Wait()
	count := 0
	for i := range table.shards {
		if all := table.heads[i].Load(); all != nil {
			for j := range all.line {
				for k := range all.line[j].nodes {
					if all.line[j].nodes[k].Load() != nil {
						count++
					}
				}
			}
		}
	}
	require.Equal(t, count, table.Len())
}

// A slot matches if its tag does; others may follow a match, and none is missed.
func TestMatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tags := rapid.Uint64().Draw(t, "tags")
		tag := rapid.Uint64Range(0, 255).Draw(t, "tag")
		found := matches(tags, tag)
		first := true
		for slot := range slots {
			is := tags>>(8*slot)&0xff == tag
			says := found>>(8*slot)&0xff == 0x80
			if is && !says || first && says && !is {
				t.Fatalf("slot %d of %x has tag %x: %v, and %v is found", slot, tags, tag, is, says)
			}
			first = first && !is
		}
		if found>>56 != 0 {
			t.Fatal("the top byte is no slot")
		}
	})
}

func TestTable_LookUpAllocatesNothing(t *testing.T) {
	table := New(1000, false, rules)
	for i := range 1000 {
		findOrMake(table, fmt.Sprint(i), 0, forever)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if table.find("500") == nil || table.find("none") != nil {
			t.Error("not found")
		}
	}))
}

// Wherever the one key is that has expired, room is found for a new one.
func TestTable_FreeFindsWhatHasExpired(t *testing.T) {
	t.Parallel()
	const most = 5000
	table := New(most, false, rules)
	for i := range most {
		require.NotNil(t, findOrMake(table, fmt.Sprint(i), 0, forever))
	}
	require.False(t, table.Free(10))
	for i := range 50 {
		table.find(fmt.Sprint(i * 99)).Value.until.Store(5)
		require.True(t, table.Free(10))
		require.Equal(t, most-1, table.Len())
		require.NotNil(t, findOrMake(table, fmt.Sprint("new ", i), 10, forever))
		require.Equal(t, most, table.Len())
	}
}

// A key that is kept has room beyond the bound, and others make none by going in its place.
func TestTable_KeysThatAreKeptHaveRoomAndAreNotEvicted(t *testing.T) {
	t.Parallel()
	for _, evict := range []bool{false, true} {
		keeping := rules
		keeping.Keep = func(key string) bool { return strings.HasPrefix(key, "kept") }
		table := New(2, evict, keeping)
		kept := findOrMake(table, "kept 1", 0, 1)
		for i := range 100 {
			findOrMake(table, fmt.Sprint(i), 0, forever)
		}
		require.NotNil(t, findOrMake(table, "kept 2", 0, forever))
		require.NotNil(t, findOrMake(table, "kept 3", 0, forever))
		require.Same(t, kept, table.find("kept 1"))
		require.LessOrEqual(t, table.Len(), 5)
		require.Equal(t, evict, table.Evicted() > 0)
		table.Sweep(forever)
		require.Zero(t, table.Len())
	}
}
