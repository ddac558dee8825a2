package quota

import (
	"testing"
	"time"
)

// The clock stands still: what is measured is the decision, not the openings.
func BenchmarkQuota_Take(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit int64
		lend  bool
	}{
		{"admitted", MaxLimit, false},
		{"refused", 100, false},
		{"admitted beside a loan", MaxLimit, true},
		{"refused beside a loan", 100, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := newQuota(b, time.Second, 10, false)
			try(q, minute, 100, 100)
			if c.lend {
				q.Borrow(minute+100*ms, 1, 100, time.Second)
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					q.Take(minute+100*ms, 1, c.limit)
				}
			})
		})
	}
}

func BenchmarkQuota_BorrowAndRefund(b *testing.B) {
	q := newQuota(b, time.Second, 10, false)
	try(q, minute, 100, 100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			q.Refund(q.Borrow(minute+100*ms, 1, 100, time.Second).Ticket, 1)
		}
	})
}

// Each call opens a bucket, or finds that it has been opened.
func BenchmarkQuota_TakeOpening(b *testing.B) {
	q := newQuota(b, time.Second, 10, false)
	now := minute
	b.ReportAllocs()
	for b.Loop() {
		now += 100 * ms
		q.Take(now, 1, 100)
	}
}
