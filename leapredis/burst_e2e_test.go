//go:build e2e

package leapredis

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/limit"
)

// bothBursts has a server and the model, which counts in fractions, do the same for a key: with
// all limits by turns, refunds late and in any order, resets, and a clock that goes back.
func bothBursts(t *rapid.T, conn *redistest.Conn, key string) {
	limits := rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(0, 12), rapid.Int64Range(1, MaxLimit), rapid.Just[int64](MaxLimit), rapid.Just[int64](1_000_003),
	), 1, 3).Draw(t, "limits")
	b := &burstScripts{
		length: rapid.OneOf(rapid.Just[int64](1000), rapid.Just[int64](1_000_000), rapid.Int64Range(1000, limit.MaxWindow.Microseconds())).Draw(t, "window"),
		burst:  rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, MaxLimit)).Draw(t, "burst"),
	}
	now := rapid.Int64Range(0, 1<<51).Draw(t, "now")
	model := newServer()
	model.now = func() int64 { return now }
	model.known["burst"] = true
	run := func(q question, more ...int64) []int64 {
		text := b.pack(&q) + pack(more...)
		want, err := model.execute("burst", false, key, []string{text})
		require.NoError(t, err)
		got, err := ask(conn, burstScript, key, now, text)
		require.NoError(t, err)
		require.Equal(t, want, got, "%+v %v at %d", q, more, now)
		require.True(t, q.most < 0 || b.plausible(q, reply(append(got, 0))), "%+v: %v", q, got)
		return got
	}
	type charge struct{ at, limit, n int64 }
	var charges []charge
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		under := rapid.SampledFrom(limits).Draw(t, "limit")
		one := b.price(under, 1)
		if rapid.Bool().Draw(t, "pauses") {
			now += rapid.OneOf(rapid.Int64Range(0, 2*one.whole+2), rapid.Int64Range(0, b.length*3/2), rapid.Int64Range(-b.length*2, b.length*5)).Draw(t, "pause")
			now = max(now, 0)
		}
		most := b.most(under)
		n := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, max(1, most/3)), rapid.Int64Range(1, most+1)).Draw(t, "n")
		switch what := rapid.IntRange(0, 12).Draw(t, "what"); {
		case what < 6:
			q := question{limit: under, n: n, most: rapid.SampledFrom([]int64{takeNothing, n, n, n}).Draw(t, "most")}
			if r := run(q); q.most > 0 && r[0] > 0 {
				charges = append(charges, charge{r[3], under, r[0]})
			}
		case what < 8 && under > 0:
			if r := run(question{limit: under, n: min(n, most), most: takeSome}, one.whole, one.part); r[0] > 0 {
				charges = append(charges, charge{r[3], under, r[0]})
			}
		case what == 8 && under > 0:
			run(question{limit: under, n: rapid.Int64Range(1, maxHeld).Draw(t, "more"), most: takeAnyway})
		case what < 12 && len(charges) > 0:
			c := charges[rapid.IntRange(max(0, len(charges)-5), len(charges)-1).Draw(t, "which")]
			run(question{limit: c.limit, n: rapid.Int64Range(1, c.n).Draw(t, "give"), most: refundIt}, c.at)
		case what == 12:
			run(question{limit: 1, n: 1, most: resetIt})
		}
	}
}

// What is kept of a key lasts until all is paid, and no longer than it takes.
func TestE2E_BurstKeysExpireWhenAllIsPaid(t *testing.T) {
	t.Parallel()
	program, err := redistest.Installed("redis-server")
	require.NoError(t, err)
	server, err := redistest.Start(program)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	conn, err := redistest.Dial(server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	b := &burstScripts{length: 3_600_000_000, burst: 5}
	run := func(q question, more ...int64) {
		_, err := conn.Do("EVAL", burstScript.text, "1", "a", b.pack(&q)+pack(more...))
		require.NoError(t, err)
	}
	left := func() int64 {
		ms, err := conn.Do("PTTL", "a")
		require.NoError(t, err)
		return ms.(int64)
	}
	run(question{limit: 3600, n: 3, most: 3})
	require.InDelta(t, 3000, left(), 900)
	require.LessOrEqual(t, left(), int64(3002))
	run(question{limit: 1, n: 1, most: takeAnyway})
	require.InDelta(t, 3_603_000, left(), 5000)
	run(question{limit: 1, n: 1, most: resetIt})
	run(question{limit: 3600, n: 1, most: 1})
	require.InDelta(t, 3_603_000, left(), 9000, "late refunds must still find out that there was a reset")
}

// bothPlaces has a server and the model take, renew and release places of a key.
func bothPlaces(t *rapid.T, conn *redistest.Conn, key string) {
	most := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Just[int64](MaxLimit)).Draw(t, "limit")
	now := rapid.Int64Range(1, 1<<51).Draw(t, "now")
	model := newServer()
	model.now = func() int64 { return now }
	byName := map[string]*script{}
	for s, name := range scriptNames {
		byName[name] = s
		model.known[name] = true
	}
	run := func(name string, given ...string) {
		want, err := model.execute(name, false, key, given)
		require.NoError(t, err)
		got, err := ask(conn, byName[name], key, now, given...)
		require.NoError(t, err)
		require.Equal(t, want, got, "%s %q at %d", name, given, now)
	}
	var ids []string
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		if rapid.Bool().Draw(t, "pauses") {
			now = max(1, now+rapid.Int64Range(-1_500_000, 2_500_000).Draw(t, "pause"))
		}
		lasts := rapid.SampledFrom([]int64{100_000, 1_000_000, 2_000_000}).Draw(t, "lease")
		which := ""
		if len(ids) > 0 {
			which = rapid.SampledFrom(ids).Draw(t, "which")
		}
		switch what := rapid.IntRange(0, 6).Draw(t, "what"); {
		case what < 3:
			id := fmt.Sprintf("%016d", len(ids))
			ids = append(ids, id)
			run("in flight", pack(most, lasts), id)
		case what == 3:
			run("in flight", pack(most, lasts), "")
		case which == "":
		case what == 4:
			run("renew", which, strconv.FormatInt(lasts, 10))
		default:
			run("release", which)
		}
	}
}
