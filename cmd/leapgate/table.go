package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rulefile"
)

// printTable says in words what each rule means.
func printTable(w io.Writer, rules rulefile.Rules) error {
	if rules.Len() == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "ID\tRESOURCE\tMEANING\n")
	row := func(id, target, meaning string) { fmt.Fprintf(table, "%s\t%s\t%s\n", escape.Text(id), target, meaning) }
	nth := map[string]int{}
	for _, r := range rules.Flow {
		row(idOf(r.ID, r.Match, r.Resource, nth), target(r.Match, r.Resource), flowMeaning(r))
	}
	clear(nth)
	for _, r := range rules.Isolation {
		row(idOf(r.ID, r.Match, r.Resource, nth), target(r.Match, r.Resource), isolationMeaning(r))
	}
	return table.Flush()
}

// idOf gives the ID of a rule, or the one that it gets.
func idOf(id string, match flow.Match, resource string, nth map[string]int) string {
	if match == flow.Default {
		resource = "*"
	}
	nth[resource]++
	if id != "" {
		return id
	}
	return resource + "/" + strconv.Itoa(nth[resource])
}

func target(match flow.Match, name string) string {
	switch match {
	case flow.Glob:
		return "each like " + escape.Text(name)
	case flow.Regexp:
		return "each matching " + escape.Text(name)
	case flow.Default:
		return "each without a rule of its own"
	default:
		return escape.Text(name)
	}
}

func flowMeaning(r flow.Rule) string {
	var s strings.Builder
	switch r.Origin {
	case "":
	case flow.OtherOrigins:
		s.WriteString("from callers that no rule names, ")
	default:
		fmt.Fprintf(&s, "from caller %s, ", escape.Text(r.Origin))
	}
	if r.Interval == 0 {
		r.Interval = flow.DefaultInterval
	}
	if r.Buckets == 0 {
		r.Buckets = flow.DefaultBuckets
	}
	switch {
	case r.Associated != "":
		fmt.Fprintf(&s, "none while %s passes more than %s per second; blocks", escape.Text(r.Associated), figure(r.Threshold))
	case r.Behavior == flow.Pace:
		pace(&s, r)
	default:
		admission(&s, r)
		s.WriteString("; blocks")
		if r.MaxWait > 0 {
			fmt.Fprintf(&s, ", with priority after waiting up to %s", span(r.MaxWait))
		}
	}
	if r.Candidate > 0 {
		fmt.Fprintf(&s, "; tries %s beside it", figure(r.Candidate))
	}
	return s.String() + modeMeaning(r.Mode)
}

// admission says how much a rule that rejects admits.
func admission(s *strings.Builder, r flow.Rule) {
	most := figure(r.Threshold)
	if whole := math.Floor(r.Threshold); whole != r.Threshold && r.Strategy == flow.Direct {
		most = figure(whole) // what is behind the point does not count
	}
	window := fmt.Sprintf("in any aligned %s of %s", span(r.Interval), counted(r.Buckets, "bucket"))
	if r.Strict {
		window = fmt.Sprintf("in any %s, wherever it begins", span(r.Interval))
	}
	if r.Threshold < 1 { // the most that the other strategies come to
		s.WriteString("none")
		return
	}
	fmt.Fprintf(s, "at most %s %s", most, window)
	strategy(s, r, 1)
}

// pace says how far apart the calls of a rule that paces are.
func pace(s *strings.Builder, r flow.Rule) {
	if r.Threshold < 1 { // a call is more than that
		s.WriteString("none; blocks")
		return
	}
	fmt.Fprintf(s, "one every %s", span(time.Duration(float64(r.Interval)/r.Threshold)))
	strategy(s, r, float64(r.Interval))
	if r.MaxWait > 0 {
		fmt.Fprintf(s, "; waits up to %s, then blocks", span(r.MaxWait))
	} else {
		s.WriteString("; blocks what comes early")
	}
}

// strategy says how the threshold moves. per is what a pace is reckoned from.
func strategy(s *strings.Builder, r flow.Rule, per float64) {
	amount := func(threshold float64) string {
		switch {
		case r.Behavior != flow.Pace:
			return figure(threshold)
		case threshold == 0:
			return "none"
		default:
			return "one every " + span(time.Duration(per/threshold))
		}
	}
	switch r.Strategy {
	case flow.WarmUp:
		cold := r.ColdFactor
		if cold == 0 {
			cold = flow.DefaultColdFactor
		}
		coldest := max(r.Threshold/cold, min(1, r.Threshold)) // it lets one call in
		fmt.Fprintf(s, ", %s when cold, warm after %s", amount(coldest), span(r.WarmUpPeriod))
	case flow.MemoryAdaptive:
		fmt.Fprintf(s, " up to %s in use, falling to %s at %s", memory(r.LowMemory), amount(r.HighMemoryThreshold), memory(r.HighMemory))
	default:
	}
}

func isolationMeaning(r isolation.Rule) string {
	ends := "blocks"
	if r.MaxWait > 0 {
		ends = fmt.Sprintf("waits up to %s, then blocks", span(r.MaxWait))
	}
	if r.MaxQueue > 0 {
		ends = fmt.Sprintf("waits up to %s, %d calls at once, then blocks", span(r.MaxWait), r.MaxQueue)
	}
	return fmt.Sprintf("at most %d in flight; %s", r.MaxInFlight, ends) + modeMeaning(r.Mode)
}

func modeMeaning(mode flow.Mode) string {
	switch mode {
	case flow.Shadow:
		return " (shadow: only counts what it would block)"
	case flow.Off:
		return " (off)"
	default:
		return ""
	}
}

func figure(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// span is a duration without the zeros behind.
func span(d time.Duration) string {
	if d > time.Millisecond {
		d = d.Round(time.Microsecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func memory(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.bytes {
			return figure(float64(bytes)/float64(unit.bytes)) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}
