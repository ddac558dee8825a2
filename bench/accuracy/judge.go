package main

import (
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// An algorithm makes a limiter, which says whether it admits one more of a key.
type algorithm struct {
	name string
	make func(most int64, window time.Duration) (func(now int64, key string) bool, error)
}

var algorithms = []algorithm{
	{"fixed window", newFixed},
	{"limit.NewCounter", own(limit.NewCounter, limit.Config{})},
	{"limit.NewBucketed of 10", own(limit.NewBucketed, limit.Config{})},
	{"limit.NewBucketed of 10, strict", own(limit.NewBucketed, limit.Config{Strict: true})},
	{"limit.NewLog", own(limit.NewLog, limit.Config{})},
}

func own[L interface {
	AllowNAt(now int64, key string, n int64) limit.Decision
}](of func(limit.Config) (L, error), cfg limit.Config) func(int64, time.Duration) (func(int64, string) bool, error) {
	return func(most int64, window time.Duration) (func(int64, string) bool, error) {
		cfg.Limit, cfg.Window = most, window
		l, err := of(cfg)
		if err != nil {
			return nil, err
		}
		return func(now int64, key string) bool { return l.AllowNAt(now, key, 1).Allowed }, nil
	}
}

// newFixed counts from one multiple of the window to the next, as many limiters do.
func newFixed(most int64, window time.Duration) (func(int64, string) bool, error) {
	type count struct{ window, n int64 }
	counts := make(map[string]*count)
	return func(now int64, key string) bool {
		c := counts[key]
		if c == nil {
			c = &count{}
			counts[key] = c
		}
		if w := now / int64(window); w != c.window {
			*c = count{window: w}
		}
		if c.n == most {
			return false
		}
		c.n++
		return true
	}, nil
}

// A verdict is what came of one limit on one traffic.
type verdict struct {
	requests, refused int
	// A decision is wrong if it differs from the exact count of what this very limiter had
	// admitted in the window that ends with the request.
	tooKind, tooHard int
	fullest          int64 // most admitted in a true window, of any key
}

func judge(t traffic, most int64, a algorithm) (verdict, error) {
	v := verdict{requests: len(t.requests)}
	allow, err := a.make(most, t.window)
	if err != nil {
		return v, err
	}
	admitted := make(map[string][]int64) // times in (now − window, now]
	for _, r := range t.requests {
		live := admitted[r.key]
		for len(live) > 0 && live[0] <= r.at-int64(t.window) {
			live = live[1:]
		}
		fits := int64(len(live)) < most
		switch allowed := allow(r.at, r.key); {
		case allowed:
			live = append(live, r.at)
			v.fullest = max(v.fullest, int64(len(live)))
			if !fits {
				v.tooKind++
			}
		default:
			v.refused++
			if fits {
				v.tooHard++
			}
		}
		admitted[r.key] = live
	}
	return v, nil
}
