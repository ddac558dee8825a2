//go:build e2e

package leapredis

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

var (
	lifeSteps = flag.Int("life.steps", 50_000, "how many steps of each kind of limiter are compared with the model")
	lifeSeed  = flag.Uint64("life.seed", 0, "the first seed; 0: any")
)

// Keys live long: their logs grow and shrink by turns, refunds and settlements come late and
// in any order, and the server clears away what has expired when it likes. Every reply is
// that of the model.
//
//	go test -tags e2e -run LongLives -timeout 2h . -life.steps 10000000
func TestE2E_LongLivesOfKeys(t *testing.T) {
	t.Parallel()
	old, err := redistest.Installed("redis-server")
	require.NoError(t, err)
	liveOn(t, "installed", old)
	root := os.Getenv(redistest.Env)
	if root == "" {
		t.Log("skipped: a newer server, because", redistest.Env, "is not set")
		return
	}
	fresh, err := redistest.Unpacked(root, "redis-server")
	require.NoError(t, err)
	liveOn(t, "newer", fresh)
}

func liveOn(t *testing.T, name string, program redistest.Program) {
	t.Helper()
	server, err := redistest.Start(program)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	for _, k := range kinds {
		if k.name == "Burst" { // of bursts, see TestE2E_ScriptsDoWhatTheModelDoes
			continue
		}
		t.Run(name+"/"+k.name, func(t *testing.T) {
			conn, err := redistest.Dial(server.Addr())
			require.NoError(t, err)
			defer conn.Close()
			seed := *lifeSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			begun := seed
			for done := 0; done < *lifeSteps; seed++ {
				done += live(t, conn, k.script, seed)
			}
			t.Logf("%d lives, from seed %d", seed-begun, begun)
		})
	}
}

// life is a key on the server and in the model.
type life struct {
	t      *testing.T
	conn   *redistest.Conn
	random *rand.Rand
	seed   uint64
	kind   string
	key    string
	limit  int64
	length int64
	now    int64
	model  *server

	charges  []charged
	taken    int // how many admissions there were
	pending  []pending
	sent     map[string]bool
	steps    int
	onlyFore bool // the clock does not go back, and what has expired is cleared away
}

// charged is what was taken, and how many admissions there had been.
type charged struct {
	at, generation, n int64
	number            int
}

// pending is a script that was sent, and what it is to reply.
type pending struct {
	what string
	want []int64
}

// fewLater is how many admissions there may be after one that is refunded, so that the log
// is rewritten.
const fewLater = 900

// live runs a life, and returns how many steps it had.
func live(t *testing.T, conn *redistest.Conn, kind string, seed uint64) int {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	l := &life{
		t: t, conn: conn, random: random, seed: seed, kind: kind, key: fmt.Sprint("life-", seed), model: newServer(), sent: map[string]bool{},
		limit:  []int64{1, 2, 3, 10, 100, 1000, 3000}[random.IntN(7)],
		length: []int64{1000, 7777, 1_000_000, 3_600_000_000}[random.IntN(4)],
		now:    random.Int64N(1 << 50), onlyFore: random.IntN(3) > 0,
	}
	l.model.now = func() int64 { return l.now }
	for _, name := range scriptNames {
		l.model.known[name] = true
	}
	for range 1 + random.IntN(12) {
		l.phase()
	}
	l.receive()
	_, err := conn.Do("DEL", l.key)
	require.NoError(t, err)
	return l.steps
}

// phase goes on for a while in one way: the log grows, or shrinks, or is idle.
func (l *life) phase() {
	asked := 100                                                             // of 100 steps
	tick := l.length / max(1, l.limit*[]int64{1, 4, 50}[l.random.IntN(3)]/2) // the time of a step is up to it
	switch l.random.IntN(4) {
	case 0:
		asked = 95
	case 1:
		asked = 60
	case 2:
		asked = 15
	default:
		l.pass(l.random.Int64N(l.length*2 + 1))
	}
	for range 1 + l.random.IntN(1500) {
		l.steps++
		l.pass(l.random.Int64N(tick + 1))
		switch {
		case l.random.IntN(100) < asked:
			l.ask()
		case l.kind == "counter" && l.random.IntN(200) == 0:
			l.run("counter reset")
		default:
			l.refund()
		}
		if len(l.pending) >= 256 {
			l.receive()
		}
	}
}

// pass lets time pass, and sometimes the clock go back.
func (l *life) pass(d int64) {
	if !l.onlyFore && l.random.IntN(300) == 0 {
		l.now = max(0, l.now-l.random.Int64N(2*l.length))
		return
	}
	l.now += d
	if !l.onlyFore || l.random.IntN(50) > 0 {
		return
	}
	if c := l.model.counters[l.key]; c != nil && l.now >= (c.number+2)*l.length {
		delete(l.model.counters, l.key)
		l.send("DEL", nil, "DEL", l.key)
	}
	if log := l.model.logs[l.key]; log != nil && l.now/1000 >= (log.last+l.length)/1000+2 {
		delete(l.model.logs, l.key)
		l.send("DEL", nil, "DEL", l.key)
	}
}

func (l *life) ask() {
	n := int64(1)
	switch l.random.IntN(8) {
	case 0:
		n = 1 + l.random.Int64N(5)
	case 1:
		n = 1 + l.random.Int64N(max(1, l.limit/3))
	}
	most := []int64{n, n, n, n, n, n, n, takeNothing, takeNothing, takeAnyway}[l.random.IntN(10)]
	if l.kind == "counter" && most == n && l.random.IntN(4) == 0 {
		most += l.random.Int64N(l.limit + 1)
	}
	r := l.run(l.kind, l.limit, l.length, n, most)
	if most == takeNothing || r[0] == 0 {
		return
	}
	l.taken++
	c := charged{r[3] / l.length, r[4], r[0], l.taken}
	if l.kind != "counter" {
		c.at = r[4]
	}
	l.charges = append(l.charges, c)
}

// refund gives back some of what was taken, or all: mostly of what was taken lately.
func (l *life) refund() {
	for len(l.charges) > 0 && l.taken-l.charges[0].number >= fewLater {
		l.charges = l.charges[1:]
	}
	if len(l.charges) == 0 {
		return
	}
	i := l.random.IntN(len(l.charges))
	if l.random.IntN(2) == 0 {
		i = max(i, len(l.charges)-1-l.random.IntN(5))
	}
	c := &l.charges[i]
	n := c.n
	if l.random.IntN(3) == 0 {
		n = 1 + l.random.Int64N(c.n)
	}
	if l.kind == "counter" {
		l.run("counter refund", c.at, c.generation, n)
	} else {
		l.run(l.kind+" refund", c.at, n)
		if c.at <= l.now-l.length {
			// It counts no more, whether it is still there or not; only that is to be seen later.
			l.pending[len(l.pending)-1].want = nil
		}
	}
	if c.n -= n; c.n == 0 {
		l.charges = append(l.charges[:i], l.charges[i+1:]...)
	}
}

// run has the model do a script, and sends it to the server.
func (l *life) run(name string, given ...int64) []int64 {
	l.t.Helper()
	texts := textsOf(given)
	want, err := l.model.execute(name, false, l.key, texts)
	require.NoError(l.t, err)
	var script *script
	for s, called := range scriptNames {
		if called == name {
			script = s
		}
	}
	text := timed(script, len(texts))
	sha := text.sha
	command := []string{"EVALSHA", sha, "1", l.key}
	if !l.sent[sha] {
		l.sent[sha] = true
		command = []string{"EVAL", text.text, "1", l.key}
	}
	command = append(command, texts...)
	l.send(fmt.Sprint(name, given), want, append(command, strconv.FormatInt(l.now/1_000_000, 10), strconv.FormatInt(l.now%1_000_000, 10))...)
	return want
}

func (l *life) send(what string, want []int64, command ...string) {
	l.t.Helper()
	require.NoError(l.t, l.conn.Send(command...))
	l.pending = append(l.pending, pending{what, want})
}

// receive compares what the server has replied.
func (l *life) receive() {
	l.t.Helper()
	for i, p := range l.pending {
		got, err := l.conn.Receive()
		require.NoError(l.t, err, "seed %d: %s", l.seed, p.what)
		if p.want == nil {
			continue
		}
		for j, want := range p.want {
			value := int64(0) // what is left out
			if all := got.([]any); j < len(all) {
				value = all[j].(int64)
			}
			require.Equal(l.t, want, value, "seed %d, about step %d, %s: %v; want %v", l.seed, l.steps-len(l.pending)+i, p.what, got, p.want)
		}
	}
	l.pending = l.pending[:0]
}
