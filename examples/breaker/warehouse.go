package main

import (
	"context"
	"errors"
	"time"
)

// warehouse is what the shop depends on. It has two bad times, and recovers from both by
// itself.
type warehouse struct{ began time.Time }

var errWarehouse = errors.New("the warehouse has failed")

// times are how it does from which time on.
var times = []struct {
	from time.Duration
	how  string
}{
	{0, "well"},
	{1500 * time.Millisecond, "fails"}, // each call, at once
	{3000 * time.Millisecond, "well"},
	{5000 * time.Millisecond, "hangs"}, // says nothing at all
	{6500 * time.Millisecond, "well"},
}

func (w *warehouse) how() (how string) {
	for _, t := range times {
		if time.Since(w.began) >= t.from {
			how = t.how
		}
	}
	return how
}

// stock asks how many there are of an item.
func (w *warehouse) stock(ctx context.Context) (int, error) {
	switch w.how() {
	case "fails":
		return 0, errWarehouse
	case "hangs":
		<-ctx.Done() // until the caller gives up
		return 0, ctx.Err()
	}
	time.Sleep(5 * time.Millisecond)
	return 42, nil
}
