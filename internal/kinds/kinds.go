// Package kinds is where the kinds of rules are registered, each once. Gates, rule files,
// the dashboard, the metrics and the command line all go by this list: a new kind is a
// package of its own, a field of [Rules] here and in package leapgate, and a line in All.
package kinds

import (
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/system"
)

// Rules is a list of rules of each kind. Package leapgate has the same type, written out
// for its users; the compiler checks that they are identical.
type Rules struct {
	Flow      []flow.Rule
	Isolation []isolation.Rule
	Breaker   []breaker.Rule
	Param     []param.Rule
	System    []system.Rule
}

// All are the kinds, in the order in which their rules are asked and shown.
var All = []Kind{
	of(&flow.Kind, func(r *Rules) *[]flow.Rule { return &r.Flow }),
	of(&isolation.Kind, func(r *Rules) *[]isolation.Rule { return &r.Isolation }),
	of(&breaker.Kind, func(r *Rules) *[]breaker.Rule { return &r.Breaker }),
	of(&param.Kind, func(r *Rules) *[]param.Rule { return &r.Param }),
	of(&system.Kind, func(r *Rules) *[]system.Rule { return &r.System }),
}
