package page

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/whatif"
)

// chart is a curve as it is drawn: to the right the limit, as its logarithm, and upwards what share
// it would block, as its root, for what matters are the small shares.
type chart struct {
	*whatif.Curve
	Requests, Touched template.HTMLAttr // the lines: of requests, of keys
	Suggest           float64           // where the suggested limit stands, in percent of the width
	XTicks, YTicks    []tick
	Data              string // of all points, for the script
}

type tick struct {
	At   float64 // percent
	Text string
}

// maxSamples is how many limits there are on the slider.
const maxSamples = 240

func newChart(c whatif.Curve) *chart {
	limits := sampled(max(1, c.Peaks.Max), c.Suggested.Limit, maxSamples)
	for _, p := range c.Points {
		limits = append(limits, p.Limit)
	}
	slices.Sort(limits)
	limits = slices.Compact(limits)

	ch := &chart{Curve: &c}
	most := float64(limits[len(limits)-1])
	x := func(limit int64) float64 {
		if most <= 1 {
			return 0
		}
		return 100 * math.Log(max(1, float64(limit))) / math.Log(most)
	}
	y := func(share float64) float64 { return 100 * (1 - math.Sqrt(min(1, max(0, share)))) }
	var requests, touched strings.Builder
	data := make([][3]int64, 0, len(limits))
	for i, limit := range limits {
		p := c.At(limit)
		op := 'L'
		if i == 0 {
			op = 'M'
		}
		fmt.Fprintf(&requests, "%c%.2f %.2f", op, x(limit), y(p.Share))
		fmt.Fprintf(&touched, "%c%.2f %.2f", op, x(limit), y(float64(p.Keys)/float64(max(1, c.Keys))))
		data = append(data, [3]int64{limit, p.Blocked, int64(p.Keys)})
	}
	ch.Requests = template.HTMLAttr(fmt.Sprintf(`d="%s"`, requests.String()))
	ch.Touched = template.HTMLAttr(fmt.Sprintf(`d="%s"`, touched.String()))
	ch.Suggest = x(c.Suggested.Limit)
	text, _ := json.Marshal(data) // numbers only
	ch.Data = string(text)
	for _, share := range []float64{0, 0.01, 0.05, 0.2, 0.5, 1} {
		ch.YTicks = append(ch.YTicks, tick{y(share), fmt.Sprintf("%g %%", share*100)})
	}
	for limit := int64(1); float64(limit) <= most; limit *= 10 {
		ch.XTicks = append(ch.XTicks, tick{x(limit), count(limit)})
	}
	return ch
}

// sampled returns limits from 1 to a little more than most, evenly by their logarithms.
func sampled(most, also int64, n int) (limits []int64) {
	end := float64(max(most, also)) * 1.05
	for i := range n {
		limits = append(limits, int64(math.Round(math.Exp(math.Log(end)*float64(i)/float64(n-1)))))
	}
	return append(limits, max(1, also))
}
