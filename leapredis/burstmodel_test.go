package leapredis

import "math/big"

// owing is what a server keeps of a key of NewBurst: as fractions of µs, however long.
type owing struct {
	at            int64
	owes          *big.Rat // at that time
	forgot, stale int64    // when it was reset; when what was taken before would have been paid
	n             int64    // taken, less what was given back
}

// fraction is what a span is.
func (s span) fraction(limit int64) *big.Rat {
	return new(big.Rat).Add(big.NewRat(s.whole, 1), big.NewRat(s.part, limit))
}

// spanOf rounds a fraction up to parts of limit.
func spanOf(f *big.Rat, limit int64) (s span) {
	all := new(big.Int).Mul(f.Num(), big.NewInt(limit))
	all, rest := all.DivMod(all, f.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		all.Add(all, big.NewInt(1))
	}
	part := new(big.Int)
	all.DivMod(all, big.NewInt(limit), part)
	return span{all.Int64(), part.Int64()}
}

// burst does what burst.lua does.
func (s *server) burst(key string, a []int64) []int64 {
	limit, n, most, now := a[0], a[5], a[6], s.now()
	whole, cost := span{a[1], a[2]}.fraction(limit), span{a[3], a[4]}.fraction(limit)
	b := s.bursts[key]
	owes := new(big.Rat)
	next := &owing{at: now}
	if b != nil {
		*next = *b
		next.at = max(now, b.at)
		if owes.Sub(b.owes, big.NewRat(next.at-b.at, 1)); owes.Sign() < 0 {
			owes.SetInt64(0)
		}
		owes = spanOf(owes, limit).fraction(limit)
		if b.stale <= next.at {
			next.forgot, next.stale = 0, 0
		}
	}
	reply := func(n int64) []int64 {
		owed := spanOf(owes, limit)
		return []int64{n, owed.whole, owed.part, next.at, next.at - now}
	}
	keep := func() {
		if longest := big.NewRat(maxSpan, 1); owes.Cmp(longest) > 0 {
			owes = longest
		}
		next.owes = owes
		s.bursts[key] = next
	}
	fits := func(cost *big.Rat) bool { return new(big.Rat).Add(owes, cost).Cmp(whole) <= 0 }
	switch {
	case most == resetIt:
		if owes.Sign() > 0 {
			next.forgot, next.stale = next.at, max(next.stale, next.at+spanOf(owes, limit).whole+1)
			owes, next.n = new(big.Rat), 0
			keep()
		}
		return []int64{0, 0, 0, next.at, next.at - now}
	case most == refundIt:
		back := new(big.Rat).Sub(cost, big.NewRat(next.at-a[7], 1))
		forgot := int64(0)
		if b != nil {
			forgot = b.forgot
		}
		if a[7] <= forgot || back.Sign() < 0 || owes.Sign() == 0 {
			return reply(0)
		}
		if owes = new(big.Rat).Sub(owes, back); owes.Sign() < 0 {
			owes = new(big.Rat)
		}
		next.n -= n
		keep()
		return reply(n)
	case most == takeAnyway || fits(cost):
	case most == takeSome:
		one := span{a[7], a[8]}.fraction(limit)
		room := new(big.Rat).Sub(whole, owes)
		if n = 0; room.Sign() > 0 {
			room.Quo(room, one)
			n = new(big.Int).Div(room.Num(), room.Denom()).Int64()
		}
		cost = one.Mul(one, big.NewRat(n, 1))
	default:
		n = 0
	}
	if most != takeNothing && n > 0 {
		owes = new(big.Rat).Add(owes, cost)
		next.n += n
		keep()
	}
	return reply(n)
}
