package resource_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
)

func TestCall_WhoseOutcomePanicsIsAFailure(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{Outcome: func(error) leapgate.Outcome { panic("x") }})
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(context.Background(), "a", func(context.Context) error { return errors.New("failed") })
	}()
	s := g.Resource("a").Snapshot()
	require.Equal(t, []int64{1, 1, 0}, []int64{s.Success, s.Exception, s.Concurrency})
}
