package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestOffenders_OfALimiter(t *testing.T) {
	t.Parallel()
	c, _ := newCounter(t, Config{Limit: 1, Offenders: 10})
	for i := range 5 {
		for range i * i {
			c.AllowNAt(minute, fmt.Sprint("client ", i), 1)
		}
	}
	c.AllowNAt(minute, "client 4", 0)
	c.Peek("client 4") // who only looks is not refused
	require.Equal(t, []Offender{{"client 4", 15, 0}, {"client 3", 8, 0}, {"client 2", 3, 0}}, c.Offenders(10))
	require.Equal(t, []Offender{{"client 4", 15, 0}}, c.Offenders(1))
	require.Empty(t, c.Offenders(0))
	require.Empty(t, c.Offenders(-1))
	c.ForgetOffenders()
	require.Empty(t, c.Offenders(10))

	c, _ = newCounter(t, Config{})
	c.AllowNAt(minute, "a", 1)
	require.Empty(t, c.Offenders(10), "nobody asked for them")
	c.ForgetOffenders()
}

// What Space-Saving promises: a count is never too low, too high by no more than Excess,
// Excess is no more than all refusals by the number of counts, and who was refused more
// than that is there.
func TestOffenders_KeepThePromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.IntRange(1, 40).Draw(t, "counts")
		o := newOffenders(counts)
		truth := make(map[string]int64)
		perPart := make(map[int]int64)
		for _, k := range rapid.SliceOfN(rapid.IntRange(0, 60), 1, 2000).Draw(t, "refused") {
			key := fmt.Sprint(k * k / 60) // some more often than others
			o.note(key)
			truth[key]++
		}
		top := o.top(1000)
		seen := make(map[string]bool)
		for i, f := range top {
			seen[f.Key] = true
			if f.Refused < truth[f.Key] || f.Refused-f.Excess > truth[f.Key] {
				t.Fatalf("%+v was refused %d times", f, truth[f.Key])
			}
			if i > 0 && f.Refused > top[i-1].Refused {
				t.Fatalf("%+v comes after %+v", f, top[i-1])
			}
		}
		for i := range o.parts {
			p := &o.parts[i]
			sum := int64(0)
			for _, f := range p.heap {
				sum += f.Refused
			}
			perPart[i] = sum // Space-Saving loses none
			if len(p.heap) > p.most || len(p.where) != len(p.heap) {
				t.Fatalf("%d counts and %d places of %d", len(p.heap), len(p.where), p.most)
			}
			for _, f := range p.heap {
				if f.Excess > sum/int64(p.most) {
					t.Fatalf("%+v of %d refusals in %d counts", f, sum, p.most)
				}
			}
		}
		total := int64(0)
		for _, n := range perPart {
			total += n
		}
		for key, n := range truth {
			total -= n
			if len(o.parts) == 1 && n > perPart[0]/int64(o.parts[0].most) && !seen[key] {
				t.Fatalf("%s was refused %d times and is not there", key, n)
			}
		}
		if total != 0 {
			t.Fatalf("%d refusals are lost", total)
		}
	})
}

// Few clients with many refusals each stand out of a flood of others, whatever its size.
func TestOffenders_StandOutOfAFlood(t *testing.T) {
	t.Parallel()
	o := newOffenders(100)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		if i%10 == 0 {
			o.note(fmt.Sprint("bad ", random.IntN(5)))
		} else {
			o.note(fmt.Sprint("one of many ", i))
		}
	}
	for _, f := range o.top(5) {
		require.Contains(t, f.Key, "bad ")
		require.InDelta(t, 4000, f.Refused, 2500)
	}
	tracked := 0
	for i := range o.parts {
		tracked += len(o.parts[i].heap)
	}
	require.LessOrEqual(t, tracked, 100+savings)
}

func TestOffenders_HammerLosesNone(t *testing.T) {
	t.Parallel()
	c, _ := newCounter(t, Config{Offenders: 50})
	gatetest.AtOnce(16, func(id int) {
		for i := range 2000 {
			c.AllowNAt(minute, fmt.Sprint(i%10), 1)
			if i%500 == id {
				c.Offenders(3)
			}
		}
	})
	top := c.Offenders(100)
	require.Len(t, top, 10)
	for _, f := range top {
		require.EqualValues(t, 3200, f.Refused)
	}
}
