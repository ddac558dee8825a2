package leapgatetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/leapgatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// test stands for a test of a program that uses the kit: it keeps what the kit says of it.
type test struct {
	testing.TB
	said     []string
	cleanups []func()
}

// try runs f as a test, with its cleanups, and returns what was said of it, a line each.
func try(t testing.TB, f func(*test)) string {
	t.Helper()
	one := &test{TB: t}
	run := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	run(func() { f(one) })
	for _, cleanup := range slices.Backward(one.cleanups) {
		run(cleanup)
	}
	return strings.Join(one.said, "\n")
}

// tryInBubble is try where the second for which a leak is waited for takes no real time.
func tryInBubble(t *testing.T, f func(*test)) (said string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { said = try(t, f) })
	return said
}

func (t *test) Helper()           {}
func (t *test) Cleanup(f func())  { t.cleanups = append(t.cleanups, f) }
func (t *test) Error(args ...any) { t.said = append(t.said, fmt.Sprint(args...)) }

func (t *test) Errorf(format string, args ...any) { t.Error(fmt.Sprintf(format, args...)) }

func (t *test) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

func (t *test) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// pass makes n calls that end at once, and returns the number that passed.
func pass(g *leapgatetest.Gate, name string, n int) (passed int) {
	for range n {
		if e, err := g.Entry(name); err == nil {
			passed++
			e.Exit()
		}
	}
	return passed
}

// fail makes a call that passes and fails.
func fail(t testing.TB, g *leapgatetest.Gate, name string) {
	t.Helper()
	require.ErrorIs(t, g.Do(t.Context(), name, func(context.Context) error { return errFailed }), errFailed)
}

var errFailed = errors.New("failed")
