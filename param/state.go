package param

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/bykey"
	"github.com/leapgate-go/leapgate/internal/occupancy"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/rule"
)

// state is what a rule has counted of the values of all its resources. A changed rule shares what
// still fits.
type state struct {
	rule  *Rule
	items *items // nil for none
	tables
}

type tables struct {
	live   bykey.Engine      // of a rule with a threshold
	tried  bykey.Engine      // of its candidate; nil if there is none
	places *occupancy.Places // of a rule on calls in flight
	kept   *atomic.Pointer[map[string]bool]
	seed   maphash.Seed
}

const prefixLength = 8

// prefix returns the beginning of all keys of a resource. The seed is random: no client can find
// names with the same hash.
func (s *state) prefix(name string) string {
	if s.rule.Match == rule.Exact {
		return ""
	}
	return string(binary.BigEndian.AppendUint64(nil, maphash.String(s.seed, name)))
}

func share(_ *ruleset.Env, r *Rule, old any) any {
	s := &state{rule: r}
	if r.Items != "" {
		s.items, _, _ = parseItems(r.Items)
	}
	if before, _ := old.(*state); before != nil && goesOn(before.rule, r) {
		s.tables = before.tables
	} else {
		s.tables = tables{kept: new(atomic.Pointer[map[string]bool]), seed: maphash.MakeSeed()}
		if r.MaxInFlight > 0 {
			s.places = occupancy.New(r.MaxKeys, s.keep)
		} else {
			s.live = s.newEngine(r.MaxKeys, r.WhenFull)
		}
	}
	switch {
	case r.Candidate == 0:
		s.tried = nil
	case s.tried == nil:
		s.tried = s.newEngine(r.MaxKeys, r.WhenFull)
	default:
	}
	named := make(map[string]bool)
	if s.items != nil {
		for value := range s.items.values {
			a := asked{value: value}
			a.locate("")
			named[a.key] = true
		}
	}
	s.kept.Store(&named)
	return s
}

func (s *state) newEngine(maxKeys int, full WhenFull) bykey.Engine {
	return bykey.New(bykey.Config{
		Bursts: s.rule.Behavior != Reject, Window: s.rule.Interval, MaxKeys: maxKeys, WhenFull: uint8(full), Keep: s.keep,
	})
}

// keep reports whether a key is that of a value that stands among the items of the rule as it is now,
// and is never evicted.
func (s *state) keep(key string) bool {
	if s.rule.Match != rule.Exact && len(key) >= prefixLength {
		key = key[prefixLength:]
	}
	return (*s.kept.Load())[key]
}
