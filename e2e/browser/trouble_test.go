//go:build e2e

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// firstRow is the row at the top, if it is that of a resource that needs attention, and why: "name: word detail".
const firstRow = `(() => { const [r] = document.querySelectorAll(".row"); return r.dataset.why ? [r.querySelector(".name a").textContent + ":", ...[...r.querySelector(".attention").children].map((e) => e.textContent)].join(" ") : "" })()`

// TestTrouble_ComesToTheTop breaks something in the example, and looks when the page has it at its top, and not
// before. Whatever else the machine does can only make it slower, so it may be tried three times.
func TestTrouble_ComesToTheTop(t *testing.T) {
	for trouble, c := range map[string]struct{ top, want string }{
		"outage":   {firstRow, `^payments\.charge: (failing \d+(\.\d)? % of the calls|open.*)$`},
		"overload": {firstRow, `^GET /orders: blocking \d+(\.\d)? % by orders-qps$`},
		"hotkey":   {firstRow, `^GET /items: blocking \d+(\.\d)? % by each-item$`},
		"rulefile": {
			`document.querySelector("#trouble").checkVisibility() ? document.querySelector("#trouble-what").textContent : ""`,
			`shop\.yaml is refused: its latest change is not in force\. Line 5: .*threshold is -2.* In force is what was loaded (now|\d+ s ago)\.$`,
		},
	} {
		t.Run(trouble, func(t *testing.T) {
			url, says := startExample(t, "-trouble", trouble)
			begins := make(chan time.Time, 100) // more than there are in the time of a test
			go func() {
				defer close(begins)
				for line, err := says.ReadString('\n'); err == nil; line, err = says.ReadString('\n') {
					if strings.HasPrefix(line, "Trouble") {
						begins <- time.Now()
					}
				}
			}()
			p := open(t, url)
			p.until("rows", names+".length > 5")
			const most = 3 * time.Second
			is := `new RegExp(` + quote(c.want) + `).test(` + c.top + `)`
			for range 3 {
				p.until("calm", "!"+is)
				calm := time.Now()
				began, ok := <-begins
				for ; ok && began.Before(calm); began, ok = <-begins {
				}
				require.True(t, ok, "the example has ended")
				p.until("the trouble, and why", is)
				took := time.Since(began)
				t.Logf("after %v: %s", took.Round(10*time.Millisecond), ask[string](p, c.top))
				p.shootAll("trouble-" + trouble)
				if took <= most {
					return
				}
			}
			t.Errorf("it is never there within %v", most)
		})
	}
}
