package resource

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/rule"
)

// loneCheck enforces, and is not asked.
type loneCheck struct {
	Check
	cause *Cause
}

func (c loneCheck) Cause() *Cause           { return c.cause }
func (c loneCheck) Mode() rule.Mode         { return rule.Enforce }
func (c loneCheck) Stage() Stage            { return Counting }
func (c loneCheck) Interval() time.Duration { return 0 }

func TestGuardSet_IsOneCacheLine(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, lineSize, unsafe.Sizeof(guardSet{}))
	sets := make([]*guardSet, 100) // all in memory together
	for i := range sets {
		sets[i] = newGuardSet(&registry{clock: clock.New(nil)}, newChecks())
		require.Zero(t, uintptr(unsafe.Pointer(sets[i]))%lineSize)
	}
}

// What loads of many rules cost is mostly what they allocate. The race detector makes one
// allocation more.
func TestChecks_OfOneCheckAreFewAllocations(t *testing.T) {
	old := newChecks()
	one := []Check{loneCheck{cause: new(Cause)}}
	old.add(0, one, nil, new(atomic.Int64))
	old.arrange()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		s := newChecks()
		s.add(0, one, old, nil)
		s.arrange()
		if s.only() == nil || s.owners[0].serial != old.owners[0].serial {
			t.Error("not that check")
		}
	}), 2.0)
	require.Equal(t, one, old.of(0))
	require.Empty(t, old.of(1))
}

// Guards get back what they returned, whatever lies between.
func TestChecks_OfEachGuard(t *testing.T) {
	t.Parallel()
	a, b, c := loneCheck{cause: &Cause{RuleID: "a"}}, loneCheck{cause: &Cause{RuleID: "b"}}, loneCheck{cause: &Cause{RuleID: "c"}}
	s := newChecks()
	s.add(0, []Check{a, b}, nil, new(atomic.Int64))
	s.add(1, nil, nil, new(atomic.Int64))
	s.add(2, []Check{c}, nil, new(atomic.Int64))
	require.Equal(t, []Check{a, b}, s.of(0))
	require.Empty(t, s.of(1))
	require.Equal(t, []Check{c}, s.of(2))
	require.Empty(t, (*checks)(nil).of(0))
}
