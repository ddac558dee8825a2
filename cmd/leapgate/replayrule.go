package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// parseRules reads the values of all -rule flags. The error tells everything that
// is wrong with any of them. The text of a rule is also its ID.
func parseRules(texts []string) (rules leapgate.Rules, err error) {
	var faults []error
	seen := make(map[string]bool)
	for _, text := range texts {
		err := parseRule(text, &rules)
		if err == nil && seen[text] {
			err = fmt.Errorf("-rule %q is given twice; want it once", text)
		}
		seen[text] = true
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return leapgate.Rules{}, err
	}
	return rules, nil
}

// parseRule reads prefix=threshold/interval[,strict|,per-key], and adds the rule that it is. The
// error lists everything that is wrong with it.
func parseRule(text string, rules *leapgate.Rules) error {
	// A prefix may have a = of its own; what follows it may not.
	equals := strings.LastIndexByte(text, '=')
	if equals < 0 {
		return fmt.Errorf("-rule %q has no =; want prefix=threshold/interval, such as /api=60/1m", text)
	}
	prefix, limit := text[:equals], text[equals+1:]
	limit, option, hasOption := strings.Cut(limit, ",")
	count, per, hasInterval := strings.Cut(limit, "/")

	var faults []error
	fault := func(what, is, want string) {
		faults = append(faults, fmt.Errorf("-rule %q: the %s is %q; want %s", text, what, is, want))
	}
	if !strings.HasPrefix(prefix, "/") || len(text) > rule.MaxNameLength {
		fault("prefix", prefix, fmt.Sprintf("one that begins with /, and a rule of at most %d bytes", rule.MaxNameLength))
	}
	threshold, err := strconv.ParseFloat(count, 64)
	if err != nil || !(threshold >= 0) || math.IsInf(threshold, 1) {
		fault("threshold", count, "a number of at least 0, such as 60")
	}
	interval, err := time.ParseDuration(per)
	switch {
	case !hasInterval:
		faults = append(faults, fmt.Errorf("-rule %q has no interval; want threshold/interval, such as 60/1m", text))
	// Whole milliseconds divide into the default number of buckets.
	case err != nil || interval < flow.DefaultBuckets*time.Millisecond || interval > flow.MaxInterval || interval%(flow.DefaultBuckets*time.Millisecond) != 0:
		fault("interval", per, fmt.Sprintf("%v to %gh in steps of %[1]v, such as 1m", flow.DefaultBuckets*time.Millisecond, flow.MaxInterval.Hours()))
	}
	if hasOption && option != "strict" && option != "per-key" {
		fault("option", option, "strict or per-key, or none and no comma")
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if option == "per-key" {
		rules.Param = append(rules.Param, param.Rule{ID: text, Resource: prefix, Arg: keyArg, Threshold: threshold, Interval: interval})
	} else {
		rules.Flow = append(rules.Flow, flow.Rule{ID: text, Resource: prefix, Threshold: threshold, Interval: interval, Strict: hasOption})
	}
	return nil
}
