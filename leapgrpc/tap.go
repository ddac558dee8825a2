package leapgrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/tap"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// InTap returns a function for grpc.InTapHandle, which refuses calls before the server makes
// anything of them. It is for floods: a refusal costs less than in an interceptor, and the client gets the
// same status, but no pushback, since there are no trailers yet.
//
// It counts by itself, so it needs a Config of its own, with limits or a gate that no interceptor
// of the server asks as well, or else each call counts twice. Package grpc calls it with the connection
// locked, and some calls that it admits never come to an interceptor. So it asks for rates only and holds
// nothing: an entry into the gate ends at once, as ignored. It never waits: a call that would
// have to wait is refused.
//
// The error is [ErrConfig], and names everything that cannot be asked there: limits that are in
// flight or ask another process, and rules of the gate that let calls wait, or are not about rates.
// Config.Services must be set; methods that are not registered are [Unknown].
func (x *Interceptors) InTap() (tap.ServerInHandle, error) {
	var faults faults
	if x.registered == nil {
		faults.add("Services is nil; want it, so that a tap knows what is registered")
	}
	if x.gate == nil && len(x.limits.All) == 0 {
		faults.add("Gate is nil and Limits is empty; want one of them, for a tap")
	}
	for _, l := range x.limits.All {
		switch {
		case l.InFlight != nil:
			faults.add("limit %.64q is in flight, and a tap does not know when calls end; want it in an interceptor", l.Name)
		case l.Remote():
			faults.add("limit %.64q asks another process, and a tap holds up all calls of its connection; want it in an interceptor", l.Name)
		}
	}
	if x.gate != nil {
		rules := x.gate.Rules()
		checkTapRules(&rules, &faults)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return x.tap, nil
}

func checkTapRules(rules *leapgate.Rules, faults *faults) {
	waits := func(id string, wait time.Duration) {
		faults.add("rule %.64q lets calls wait for %v, and a tap holds up all calls of its connection; want a gate without, for the tap", id, wait)
	}
	other := func(id, kind string, mode rule.Mode) {
		if mode != rule.Off {
			faults.add("rule %.64q of kind %s is not about a rate, and a tap does not know when calls end; want a gate without, for the tap", id, kind)
		}
	}
	for i := range rules.Flow {
		if r := &rules.Flow[i]; r.Behavior == flow.Pace && r.MaxWait > 0 && r.Mode != rule.Off {
			waits(r.ID, r.MaxWait)
		}
	}
	for i := range rules.Param {
		switch r := &rules.Param[i]; {
		case r.MaxInFlight > 0:
			other(r.ID, fmt.Sprintf("param, with MaxInFlight %d,", r.MaxInFlight), r.Mode)
		case r.Behavior == param.Pace && r.MaxWait > 0 && r.Mode != rule.Off:
			waits(r.ID, r.MaxWait)
		}
	}
	all := kinds.Rules(*rules)
	for _, k := range kinds.All {
		for i := range k.Len(&all) {
			if h := k.Head(&all, i); k.Name() != "flow" && k.Name() != "param" {
				other(*h.ID, k.Name(), *h.Mode)
			}
		}
	}
}

func (x *Interceptors) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	call := Call{Context: ctx, Method: info.FullMethodName}
	stream, ok := x.registered()[call.Method]
	if call.Stream = stream; !ok {
		call.Method = Unknown
	}
	if call.exempt = x.exempt(call); call.exempt != NotExempt {
		return ctx, nil
	}
	call.tapped = true
	var a admission
	if err := x.enter(&a, call); err != nil {
		return ctx, err
	}
	a.exit(func() leapgate.Outcome { return leapgate.Ignored })
	return ctx, nil
}
