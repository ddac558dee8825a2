package names

import (
	"flag"
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}

func TestNew_NumberOfChains(t *testing.T) {
	t.Parallel()
	for size, chains := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 10_000: 16_384} {
		require.Len(t, *New[int](size).chains.Load(), chains, "size %d", size)
	}
}

// The chains become more when there are two names to each.
func TestTable_Grows(t *testing.T) {
	t.Parallel()
	table := New[int](1)
	values := [1000]int{}
	name := func(i int) string { return fmt.Sprint(i) }
	chains := 1
	for i := range values {
		if i == 2*chains {
			chains *= 4
		}
		table.Put(name(i), &values[i])
		require.Len(t, *table.chains.Load(), chains, "with %d names", i+1)
	}
	for i := range values {
		require.Same(t, &values[i], table.Get(name(i)))
	}
	// As long as no more names are there at once, it stays as it is.
	for i := range values {
		table.Delete(name(i))
		table.Delete(name(i))
		require.Nil(t, table.Get(name(i)))
		table.Put("n"+name(i), &values[i])
	}
	require.Len(t, *table.chains.Load(), chains)
	require.Equal(t, len(values), table.size)
	for i := range values {
		require.Same(t, &values[i], table.Get("n"+name(i)))
	}
}

func TestTable_PutGetDelete(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 100} { // all names in one chain, in two, in many
		table := New[int](size)
		values := [10]int{}
		name := func(i int) string { return fmt.Sprintf("name %d", i) }
		for i := range values {
			require.Nil(t, table.Get(name(i)))
			table.Put(name(i), &values[i])
			for k := range values {
				if k <= i {
					require.Same(t, &values[k], table.Get(name(k)))
				} else {
					require.Nil(t, table.Get(name(k)))
				}
			}
		}
		// From the middle of a chain, its end and its beginning.
		gone := map[int]bool{}
		for _, i := range []int{5, 0, 9, 4, 6} {
			table.Delete(name(i))
			gone[i] = true
			for k := range values {
				if gone[k] {
					require.Nil(t, table.Get(name(k)))
				} else {
					require.Same(t, &values[k], table.Get(name(k)))
				}
			}
		}
		table.Delete("never there")
		table.Delete(name(5))
		require.Same(t, &values[1], table.Get(name(1)))
		other := 1
		table.Put(name(5), &other)
		require.Same(t, &other, table.Get(name(5)), "another value under a name that was deleted")
	}
}

func TestTable_UnusualNames(t *testing.T) {
	t.Parallel()
	table := New[string](1)
	names := []string{"", " ", "\x00", "\x00\x00", "ä", "a", "A", strings.Repeat("a", 5000), strings.Repeat("a", 5001)}
	for i := range names {
		table.Put(names[i], &names[i])
	}
	for i := range names {
		require.Same(t, &names[i], table.Get(names[i]))
	}
	require.Nil(t, table.Get(strings.Repeat("a", 4999)))
}

// sameChain returns names that are all in one chain, if the table does not grow.
func sameChain(table *Table[int], count int) (names []string) {
	chains := *table.chains.Load()
	for i := 0; len(names) < count; i++ {
		name := fmt.Sprint(i)
		if chainOf(chains, maphash.String(table.seed, name)) == &chains[0] {
			names = append(names, name)
		}
	}
	return names
}

// A reader stands on a node when that is taken out, and goes on: it finds all
// that stays.
func TestTable_ReaderOnADeletedNode(t *testing.T) {
	t.Parallel()
	table := New[int](4)
	names := sameChain(table, 5)
	last, third, second, first, later := names[0], names[1], names[2], names[3], names[4]
	for _, name := range []string{last, third, second, first} { // each is put in front
		table.Put(name, new(int))
	}
	reader := (*table.chains.Load())[0].Load().next.Load()
	require.Equal(t, second, reader.name)
	table.Delete(second)
	table.Delete(third)
	table.Put(later, new(int))
	for n := reader; ; n = n.next.Load() {
		require.NotNil(t, n, "the last was lost")
		if n.name == last {
			break
		}
	}
}

// A reader stands on a node when the table grows, and goes on: it is still on the
// old chain, and finds all that was there.
func TestTable_ReaderWhileTheTableGrows(t *testing.T) {
	t.Parallel()
	table := New[int](4)
	names := sameChain(table, 8)
	for _, name := range names {
		table.Put(name, new(int))
	}
	reader := (*table.chains.Load())[0].Load()
	table.Put("one more", new(int))
	require.Len(t, *table.chains.Load(), 16)
	for i := len(names) - 1; i >= 0; i-- {
		require.Equal(t, names[i], reader.name)
		reader = reader.next.Load()
	}
	require.Nil(t, reader)
}

func TestTable_GetAllocatesNothing(t *testing.T) {
	table := New[int](100)
	table.Put("GET /orders", new(int))
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Get("GET /orders") }))
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Get("GET /nothing") }))
}

func TestTable_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := New[int](rapid.IntRange(0, 20).Draw(t, "size"))
		model := map[string]*int{}
		name := rapid.SampledFrom([]string{"", "a", "b", "c", "aa", "ab", "ba", "d", "e", "f", "g", "h"})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				name := name.Draw(t, "name")
				if model[name] != nil {
					t.Skip("Put is for names that are not there")
				}
				model[name] = new(int)
				table.Put(name, model[name])
			},
			"delete": func(t *rapid.T) {
				name := name.Draw(t, "name")
				delete(model, name)
				table.Delete(name)
			},
			"": func(t *rapid.T) {
				name := name.Draw(t, "name")
				if got, want := table.Get(name), model[name]; got != want {
					t.Fatalf("%q is %p, want %p", name, got, want)
				}
			},
		})
		count := 0
		chains := *table.chains.Load()
		for i := range chains {
			for n := chains[i].Load(); n != nil; n = n.next.Load() {
				count++
			}
		}
		require.Equal(t, len(model), count, "nothing else is in the chains")
		require.Equal(t, len(model), table.size)
	})
}

// One goroutine puts names in and takes them out, before and behind two that stay,
// and others look for these.
func TestTable_HammerNameThatStaysIsFound(t *testing.T) {
	t.Parallel()
	const readers, changes = 3, 600_000
	table := New[int](2)
	values := [4]int{}
	names := sameChain(table, 4) // as many as it takes without growing
	for _, i := range []int{0, 1, 2, 3} {
		table.Put(names[i], &values[i])
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				if table.Get(names[0]) != &values[0] || table.Get(names[2]) != &values[2] {
					t.Error("a name that stays was not found")
					return
				}
				if got := table.Get(names[1]); got != nil && got != &values[1] {
					t.Error("a name that comes and goes has the value of another")
					return
				}
				if i%256 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for i := range changes {
		n := 1 + i%4/2*2 // one, and the other
		if i%2 == 0 {
			table.Delete(names[n])
		} else {
			table.Put(names[n], &values[n])
		}
	}
	over.Store(true)
	wg.Wait()
	require.Len(t, *table.chains.Load(), 2)
	for i, name := range names {
		require.Same(t, &values[i], table.Get(name))
	}
}

// The same while the table grows, again and again.
func TestTable_HammerNameThatStaysIsFoundWhileTheTableGrows(t *testing.T) {
	t.Parallel()
	const readers, rounds, changes, names, more = 3, 300, 300, 16, 40
	name := [2*names + more]string{}
	for i := range name {
		name[i] = fmt.Sprintf("name %d", i)
	}
	stays, comes, others := name[:names], name[names:2*names], name[2*names:]
	var place atomic.Pointer[Table[string]]
	fresh := func() *Table[string] {
		table := New[string](1)
		for i := range stays { // with others between them
			table.Put(comes[i], &comes[i])
			table.Put(stays[i], &stays[i])
		}
		place.Store(table)
		return table
	}
	fresh()

	var over atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over.Store(true)
	for g := range readers {
		wg.Go(func() {
			for i := g; !over.Load(); i++ {
				table := place.Load()
				for n := range stays {
					if table.Get(stays[n]) != &stays[n] {
						t.Errorf("%q was not found", stays[n])
						return
					}
					n = (n + i) % names
					if got := table.Get(comes[n]); got != nil && got != &comes[n] {
						t.Errorf("%q returns %q", comes[n], *got)
						return
					}
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for range rounds {
		table := fresh()
		before := len(*table.chains.Load())
		there := [names]bool{}
		for i := range there {
			there[i] = true
		}
		for i := range changes {
			n := i * 5 % names
			if i/names%3 == 2 {
				n = i * 11 % names
			}
			if there[n] {
				table.Delete(comes[n])
			} else {
				table.Put(comes[n], &comes[n])
			}
			there[n] = !there[n]
			if i%6 == 0 && i/6 < more {
				table.Put(others[i/6], &others[i/6])
			}
		}
		require.Greater(t, len(*table.chains.Load()), before, "the table has grown")
		for n := range there {
			require.Equal(t, there[n], table.Get(comes[n]) != nil)
			require.Same(t, &stays[n], table.Get(stays[n]))
		}
	}
}
