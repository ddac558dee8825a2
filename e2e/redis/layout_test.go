//go:build e2e

package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// charge is something that a limiter took, as a server has it: an admission of a log, or
// all of a window of a counter.
type charge struct {
	id string
	at int64 // in µs; of a counter, when the window began
	n  int64
}

// charges reads what a key holds, and nothing from a server that goes away meanwhile, which is
// an error unless gone is set. How it does so is told at the top of the scripts of leapredis.
func charges(t *testing.T, do func(args ...string) (any, error), key string, window time.Duration, gone bool) (all []charge) {
	t.Helper()
	away := false
	ask := func(args ...string) any {
		reply, err := do(args...)
		if away = err != nil; !away || !gone {
			require.NoError(t, err)
		}
		return reply
	}
	add := func(id string, at, n int64) {
		if n > 0 {
			all = append(all, charge{id, at, n})
		}
	}
	switch kind := ask("TYPE", key); kind {
	case "none": // it has expired meanwhile
	case "string":
		value, ok := ask("GET", key).(string)
		if !ok {
			return nil
		}
		number, previous, current := number(value[:6]), number(value[10:17]), number(value[17:24])
		length := window.Microseconds()
		add(fmt.Sprint(number-1), (number-1)*length, previous)
		add(fmt.Sprint(number), number*length, current)
	case "zset":
		list, _ := ask("ZRANGE", key, "0", "-1", "WITHSCORES").([]any)
		for i := 0; i < len(list); i += 2 {
			at, err := strconv.ParseFloat(list[i+1].(string), 64)
			require.NoError(t, err)
			add(list[i+1].(string), int64(at), number(list[i].(string)[7:]))
		}
	case "hash":
		list, _ := ask("HGETALL", key).([]any)
		for i := 0; i < len(list); i += 2 {
			if value := list[i+1].(string); list[i] != "m" {
				add(list[i].(string), number(value[:7]), number(value[14:]))
			}
		}
	default:
		if !away {
			t.Errorf("%q is a %v", key, kind)
		}
	}
	return all
}

func number(bytes string) int64 {
	var all [8]byte
	copy(all[8-len(bytes):], bytes)
	return int64(binary.BigEndian.Uint64(all[:]))
}

// charges returns those of the limiter's key.
func (p *pair) charges(key string) []charge {
	p.t.Helper()
	return charges(p.t, p.server.Do, p.prefix+"{}"+key, p.window, false)
}
