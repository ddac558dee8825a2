//go:build e2e

package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
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

// charges reads what a key holds. How it does so is told at the top of the scripts of leapredis.
func charges(do func(args ...string) (any, error), key string, window time.Duration) (all []charge, err error) {
	add := func(id string, at, n int64) {
		if n > 0 {
			all = append(all, charge{id, at, n})
		}
	}
	kind, err := do("TYPE", key)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "none": // it has expired meanwhile
	case "string":
		reply, err := do("GET", key)
		if err != nil {
			return nil, err
		}
		value, ok := reply.(string)
		if !ok {
			return nil, nil // it has expired meanwhile
		}
		number, previous, current := number(value[:6]), number(value[10:17]), number(value[17:24])
		length := window.Microseconds()
		add(fmt.Sprint(number-1), (number-1)*length, previous)
		add(fmt.Sprint(number), number*length, current)
	case "zset":
		reply, err := do("ZRANGE", key, "0", "-1", "WITHSCORES")
		if err != nil {
			return nil, err
		}
		list, _ := reply.([]any)
		for i := 0; i < len(list); i += 2 {
			at, err := strconv.ParseFloat(list[i+1].(string), 64)
			if err != nil {
				return nil, err
			}
			add(list[i+1].(string), int64(at), number(list[i].(string)[7:]))
		}
	default:
		return nil, fmt.Errorf("%q is a %v", key, kind)
	}
	return all, nil
}

func number(bytes string) int64 {
	var all [8]byte
	copy(all[8-len(bytes):], bytes)
	return int64(binary.BigEndian.Uint64(all[:]))
}

// charges returns those of the limiter's key.
func (p *pair) charges(key string) []charge {
	p.t.Helper()
	all, err := charges(p.server.Do, p.prefix+"{}"+key, p.window)
	require.NoError(p.t, err)
	return all
}
