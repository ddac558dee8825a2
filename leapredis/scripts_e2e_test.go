//go:build e2e

package leapredis

import (
	"crypto/sha1" //nolint:gosec // it is how servers name scripts
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/internal/sliding"
	"github.com/leapgate-go/leapgate/limit"
)

// What the scripts do on a real server is what the model does, that the other tests trust:
// every reply is the same, at a clock that is given to both, and with the largest numbers
// there may be. It needs a server, which it starts:
//
//	apt-get install redis-server
//	go test -tags e2e -timeout 300s .
//
// A newer server is used too if LEAPGATE_REDIS_ROOT tells where one is: see
// package redistest.
func TestE2E_ScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	old, err := redistest.Installed("redis-server")
	require.NoError(t, err)
	onServer(t, "installed", old)
	root := os.Getenv(redistest.Env)
	if root == "" {
		t.Log("skipped: a newer server, because", redistest.Env, "is not set")
		return
	}
	fresh, err := redistest.Unpacked(root, "redis-server")
	require.NoError(t, err)
	onServer(t, "newer", fresh)
}

func onServer(t *testing.T, name string, program redistest.Program) {
	t.Helper()
	server, err := redistest.Start(program)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	conn, err := redistest.Dial(server.Addr())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	t.Run(name+"/nearly the same", func(t *testing.T) {
		number := 0
		rapid.Check(t, func(t *rapid.T) {
			number++
			edge(t, conn, fmt.Sprintf("edge-%d", number))
		})
	})
	t.Run(name+"/Burst", func(t *testing.T) {
		number := 0
		rapid.Check(t, func(t *rapid.T) {
			number++
			bothBursts(t, conn, fmt.Sprintf("burst-%d", number))
		})
	})
	t.Run(name+"/InFlight", func(t *testing.T) {
		number := 0
		rapid.Check(t, func(t *rapid.T) {
			number++
			bothPlaces(t, conn, fmt.Sprintf("places-%d", number))
		})
	})
	for _, k := range kinds {
		if k.name == "Burst" {
			continue
		}
		if k.name != "Counter" {
			t.Run(name+"/"+k.name+"/forgets nothing too soon", func(t *testing.T) {
				forgetsNothingTooSoon(t, conn, k.script, "soon-"+k.script)
			})
			t.Run(name+"/"+k.name+"/what was given back does not leave", func(t *testing.T) {
				leavesWithoutRefunds(t, conn, k.script, "leaves-"+k.script)
			})
		}
		t.Run(name+"/"+k.name, func(t *testing.T) {
			number := 0
			rapid.Check(t, func(t *rapid.T) {
				number++
				both(t, k.script, conn, fmt.Sprintf("%s-%d", k.script, number))
			})
		})
	}
}

// timed is a script that takes the time from two more arguments.
func timed(s *script, given int) *script {
	if t, ok := allTimed.Load(s); ok {
		return t.(*script)
	}
	text := strings.Replace(s.text, "redis.call('TIME')", "call('TIME')", 1)
	text = strings.Replace(text, "call('TIME')", fmt.Sprintf("{ARGV[%d], ARGV[%d]}", given+1, given+2), 1)
	// What expires does so by the server's own clock, and is to stay here.
	for _, key := range []string{"key", "KEYS[1]"} {
		text = strings.ReplaceAll(text, "call('PEXPIRE', "+key+", ", "call('PEXPIRE', "+key+", 1e6 + ")
	}
	text = strings.ReplaceAll(text, "'PX', ", "'PX', 1e6 + ")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how servers name scripts
	t := &script{text, hex.EncodeToString(sum[:])}
	allTimed.Store(s, t)
	return t
}

var allTimed sync.Map // of *script, by *script

// ask runs a script at a time in µs.
func ask(conn *redistest.Conn, s *script, key string, now int64, given ...string) ([]int64, error) {
	all := append([]string{"EVAL", timed(s, len(given)).text, "1", key}, given...)
	all = append(all, strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10))
	got, err := conn.Do(all...)
	if err != nil {
		var said redistest.Error
		if errors.As(err, &said) {
			return nil, &ReplyError{string(said)}
		}
		return nil, err
	}
	var r []int64
	for _, value := range got.([]any) {
		r = append(r, value.(int64))
	}
	return r, nil
}

// With the largest numbers, products of the counter's script are rounded. Where n just fit,
// or just not, two of them are so near that they may be rounded to the same.
func edge(t *rapid.T, conn *redistest.Conn, key string) {
	length := rapid.Int64Range(limit.MaxWindow.Microseconds()/2, limit.MaxWindow.Microseconds()).Draw(t, "window")
	previous := rapid.Int64Range(MaxLimit/2, MaxLimit).Draw(t, "previous")
	run := func(now, most, n, take int64) int64 {
		r, err := ask(conn, counterScript, key, now, textsOf([]int64{most, length, n, take})...)
		require.NoError(t, err)
		return r[0]
	}
	run(length, 0, previous, takeAnyway)
	for range 50 {
		elapsed := rapid.Int64Range(0, length-1).Draw(t, "elapsed")
		held := sliding.Held(previous, 0, elapsed, length)
		require.EqualValues(t, 1, run(2*length+elapsed, held+1, 1, takeNothing))
		require.EqualValues(t, 0, run(2*length+elapsed, held, 1, takeNothing))
	}
}

// textsOf is the arguments of a script.
func textsOf(given []int64) (texts []string) {
	if len(given) == 4 {
		a := asking{length: given[1]}
		return []string{a.pack(given[0], given[2], given[3])}
	}
	for _, n := range given {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	return texts
}

func both(t *rapid.T, kind string, conn *redistest.Conn, key string) {
	most := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, MaxLimit), rapid.Just[int64](MaxLimit)).Draw(t, "limit")
	length := rapid.OneOf(rapid.Just[int64](1000), rapid.Int64Range(1000, limit.MaxWindow.Microseconds())).Draw(t, "window")
	now := rapid.Int64Range(0, 1<<51).Draw(t, "now")
	model := newServer()
	model.now = func() int64 { return now }
	byName := map[string]*script{}
	for s, name := range scriptNames {
		byName[name] = s
		model.known[name] = true
	}
	run := func(name string, given ...int64) []int64 {
		texts := textsOf(given)
		want, err := model.execute(name, false, key, texts)
		require.NoError(t, err)
		got, err := ask(conn, byName[name], key, now, texts...)
		require.NoError(t, err)
		for len(got) < len(want) {
			got = append(got, 0) // what is left out
		}
		require.Equal(t, want, got, "%s %v", name, given)
		return got
	}
	type charge struct{ at, generation, n int64 }
	var charges []charge
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		if rapid.Bool().Draw(t, "pauses") {
			now += rapid.OneOf(rapid.Int64Range(0, length*3/2), rapid.Int64Range(-length*2, length*5)).Draw(t, "pause")
			now = max(now, 0)
		}
		n := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, max(1, most/3)), rapid.Int64Range(1, maxHeld)).Draw(t, "n")
		switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
		case what < 6:
			take := rapid.SampledFrom([]int64{takeNothing, takeAnyway, takeSome, n, n, n}).Draw(t, "most")
			// With larger limits, what is taken beyond n is computed of doubles that are not whole, and
			// may be off by one, which exceeds nothing: it is an eighth of what is left.
			if kind == "counter" && take == n && most <= 1<<30 {
				take += rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, MaxLimit)).Draw(t, "more")
			}
			if n > maxHeld/4 && take == takeAnyway {
				continue // the model has no bound for a log
			}
			r := run(kind, most, length, n, take)
			if take != takeNothing && r[0] > 0 {
				at, generation := r[3]/length, r[4]
				if kind != "counter" {
					at = r[4]
				}
				charges = append(charges, charge{at, generation, r[0]})
			}
		case what < 9 && len(charges) > 0:
			c := charges[rapid.IntRange(0, len(charges)-1).Draw(t, "which")]
			give := rapid.Int64Range(1, c.n).Draw(t, "give")
			if kind == "counter" {
				run("counter refund", c.at, c.generation, give)
			} else {
				run(kind+" refund", c.at, give)
			}
		case what == 9 && kind == "counter":
			run("counter reset")
		}
	}
}

// Admissions in one microsecond are told apart by times that are ahead of the clock. What
// has left the window only at such a time is in it again when the newest are given back.
func forgetsNothingTooSoon(t *testing.T, conn *redistest.Conn, kind, key string) {
	t.Helper()
	byName := map[string]*script{}
	for s, name := range scriptNames {
		byName[name] = s
	}
	run := func(name string, now int64, given ...int64) []int64 {
		r, err := ask(conn, byName[name], key, now, textsOf(given)...)
		require.NoError(t, err)
		return r
	}
	take := func(now, n int64) []int64 { return run(kind, now, 5, 1000, n, n) }
	require.EqualValues(t, 1, take(1, 1)[0])
	var ahead []int64
	for range 3 {
		r := take(1000, 1)
		require.EqualValues(t, 1, r[0])
		ahead = append(ahead, r[4])
	}
	require.Equal(t, []int64{1000, 1001, 1002}, ahead)
	for _, at := range ahead {
		require.EqualValues(t, 1, run(kind+" refund", 1000, at, 1)[0])
	}
	require.Zero(t, take(1000, 5)[0], "six would be admitted from 1 to 1000 µs")
	require.EqualValues(t, 4, take(1000, 4)[0])
}

// The first of what is held is not one that was given back while a newer was there.
func leavesWithoutRefunds(t *testing.T, conn *redistest.Conn, kind, key string) {
	t.Helper()
	byName := map[string]*script{}
	for s, name := range scriptNames {
		byName[name] = s
	}
	run := func(name string, now int64, given ...int64) []int64 {
		r, err := ask(conn, byName[name], key, now, textsOf(given)...)
		require.NoError(t, err)
		return r
	}
	for now := range int64(5) {
		require.EqualValues(t, 1, run(kind, 100*(now+1), 10, 1000, 1, 1)[0])
	}
	for _, at := range []int64{200, 100, 400, 300} {
		require.EqualValues(t, 1, run(kind+" refund", 500, at, 1)[0])
	}
	require.Equal(t, []int64{1, 2, 0, 1000, 600, 900}, run(kind, 600, 10, 1000, 1, 1))
	require.Equal(t, []int64{0, 2, 900 - 100, 900, 0}, run(kind, 700, 2, 1000, 1, 1)[:5])
}
