package main

import (
	"context"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/load"
)

// process is one that has one processor, of which each call takes 5 ms, and which waits for the rest
// of 100 ms.
type process struct {
	began     time.Time
	processor chan struct{}
	waiting   atomic.Int64
}

func (p *process) work(ctx context.Context) error {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	select {
	case p.processor <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(5 * time.Millisecond)
	<-p.processor
	time.Sleep(95 * time.Millisecond)
	return ctx.Err()
}

// Signals has a sample every 250 ms.
func (p *process) Signals() *load.Signals {
	cpu := 0.5
	if p.waiting.Load() > 20 {
		cpu = 1
	}
	return &load.Signals{Seq: uint64(time.Since(p.began) / (250 * time.Millisecond)), CPU: load.Known(cpu), Processors: 1}
}

func TestShow_WhatMattersIsServedInTimeWithTheRule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &process{began: time.Now(), processor: make(chan struct{}, 1)}
		gate := leapgate.Must(leapgate.Config{Load: p})
		defer gate.Close()
		var out strings.Builder
		require.NoError(t, show(t.Context(), gate, p.work, &out))
		require.Less(t, time.Since(p.began), 20*time.Second)

		type row struct{ asked, served, gaveUp, refused int }
		var tables []map[string]row
		for _, m := range regexp.MustCompile(`(?m)^ *(critical|default|sheddable|background|all) +(\d+) +(\d+) +(\d+) +(\d+) +\S+ +\S+$`).
			FindAllStringSubmatch(out.String(), -1) {
			var n [4]int
			for i := range n {
				var err error
				n[i], err = strconv.Atoi(m[2+i])
				require.NoError(t, err)
			}
			if m[1] == "critical" {
				tables = append(tables, make(map[string]row))
			}
			tables[len(tables)-1][m[1]] = row{n[0], n[1], n[2], n[3]}
		}
		require.Len(t, tables, 4, "%s", &out)
		for _, table := range tables {
			require.Len(t, table, 5, "%s", &out)
			var sum row
			for name, r := range table {
				require.Equal(t, r.asked, r.served+r.gaveUp+r.refused, "%s\n%s", name, &out)
				if name != "all" {
					sum = row{sum.asked + r.asked, sum.served + r.served, sum.gaveUp + r.gaveUp, sum.refused + r.refused}
				}
			}
			require.Equal(t, table["all"], sum, "%s", &out)
		}
		without, quiet, with := tables[0], tables[1]["all"], tables[3]
		require.Zero(t, without["all"].refused)
		require.Positive(t, without["critical"].gaveUp, "%s", &out)
		require.Equal(t, quiet.asked, quiet.served)
		require.Zero(t, with["all"].gaveUp, "%s", &out)
		require.Greater(t, with["critical"].served, with["background"].served, "%s", &out)
		require.Contains(t, out.String(), "calm → limiting")
		require.Regexp(t, `The rule refused \d+ calls: \d+ critical, \d+ default, \d+ sheddable, \d+ background\.`, out.String())
	})
}

func TestShow_EndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &process{began: time.Now(), processor: make(chan struct{}, 1)}
		gate := leapgate.Must(leapgate.Config{Load: p})
		defer gate.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.NoError(t, show(ctx, gate, p.work, io.Discard))
		require.Less(t, time.Since(p.began), 4*time.Second)
	})
}

func TestRun_BadFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][][]string{
		2: {{"now"}, {"-x"}},
		1: {{"-http", "nowhere"}},
		0: {{"-h"}},
	} {
		for _, args := range args {
			var out, errs strings.Builder
			require.Equal(t, want, run(t.Context(), args, &out, &errs), "%q", args)
			require.Empty(t, out.String())
			require.NotEmpty(t, errs.String())
		}
	}
}
