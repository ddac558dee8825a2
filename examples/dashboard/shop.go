package main

import (
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// A shop is what is protected: a gate with rules of all kinds, and two limiters.
type shop struct {
	gate       *leapgate.Gate
	load       *load.Sampler // of the machine
	perAddress *limit.RateLimiter
	logins     *limit.RateLimiter
	customers  []flowOfCalls
	rules      *ruleFile // nil if there is none
}

func newShop() (*shop, error) {
	sampler, err := load.Start(load.Config{})
	if err != nil {
		return nil, err
	}
	gate, err := leapgate.New(leapgate.Config{Load: sampler})
	if err != nil {
		return nil, err
	}
	err = gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 50, Candidate: 40},
		{ID: "search-try", Resource: "GET /search", Threshold: 30, Mode: rule.Shadow},
		{ID: "mail-pace", Resource: "mail.send", Threshold: 4, Behavior: flow.Pace, MaxWait: 2 * time.Second},
		{ID: "mail-a-day", Resource: "mail.send", Threshold: 100_000, Interval: 24 * time.Hour},
		{
			ID: "recommend-warm-up", Resource: "GET /recommendations", Threshold: 60,
			Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: 3,
		},
		{ID: "each-tenant", Resource: "tenant/*", Match: rule.Glob, Threshold: 20},
	})
	if err != nil {
		return nil, err
	}
	err = gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{
			{ID: "db-places", Resource: "db.query", MaxInFlight: 12, MaxWait: 50 * time.Millisecond},
		}
		all.Breaker = []breaker.Rule{
			{ID: "bank-breaker", Resource: "payments.charge", ErrorRatio: 0.5, OpenFor: 3 * time.Second, Ramp: 4 * time.Second},
		}
		all.Param = []param.Rule{{ID: "each-item", Resource: "GET /items", Arg: "item", Threshold: 10, Top: 5}}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &shop{gate: gate, load: sampler, customers: customers}
	s.perAddress, err = limit.NewCounter(limit.Config{
		Name: "per-address", Limit: 30, Window: 10 * time.Second, MaxKeys: 5000, Offenders: 100,
	})
	if err != nil {
		return nil, err
	}
	s.logins, err = limit.NewLog(limit.Config{Name: "logins", Limit: 5, Window: time.Minute, MaxKeys: 1000, Offenders: 100})
	return s, err
}

func (s *shop) close() {
	if s.rules != nil {
		s.rules.close()
	}
	_ = s.perAddress.Close()
	_ = s.logins.Close()
	_ = s.gate.Close()
	_ = s.load.Close()
}
