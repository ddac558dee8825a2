//go:build e2e

package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startExample starts examples/dashboard as a process of its own, and returns the address of its page, and what
// it says after that.
func startExample(t *testing.T, args ...string) (url string, says *bufio.Reader) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dashboard")
	out, err := exec.Command("go", "build", "-o", program, "github.com/leapgate-go/leapgate/examples/dashboard").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program, append(args, "-http", "127.0.0.1:0", "-token", "open-sesame")...)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait(), "it ends well, viewers or not")
	})
	says = bufio.NewReader(said)
	line, err := says.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "See it live: ")), says
}

// TestExample_IsSeen opens the example, and writes screenshots of all its views, if SCREENSHOTS
// says where: in light and dark, at the widths of a desk and of a phone.
func TestExample_IsSeen(t *testing.T) {
	t.Parallel()
	url, _ := startExample(t)
	p := open(t, url)
	p.until("all resources", names+`.includes("tenant/globex")`)
	p.until("traffic", `Number(document.querySelector("#total-pass").textContent) > 100`)
	if os.Getenv("SCREENSHOTS") == "" {
		return
	}
	p.until("blocks", `Number(document.querySelector("#total-block").textContent) > 2`)
	time.Sleep(20 * time.Second) // so that there is something to see
	for _, theme := range []string{"light", "dark"} {
		for _, at := range []struct {
			name          string
			width, height int64
		}{{"wide", 1440, 900}, {"narrow", 1024, 800}, {"tablet", 768, 1024}, {"phone", 390, 844}} {
			p.prefers(theme, "no-preference")
			p.size(at.width, at.height, at.name == "phone")
			for name, hash := range map[string]string{"resources": "#/", "resource": ofOrders, "rules": "#/rules", "rule": "#/rule/flow/orders-qps", "pattern": "#/rule/flow/each-tenant", "limiters": "#/limiters"} {
				ask[bool](p, `location.hash = "`+hash+`", true`)
				p.until("the view", `document.querySelector("main").innerText.length > 200`)
				time.Sleep(1500 * time.Millisecond) // so that a frame has come, and what moves has stopped
				p.shoot(strings.Join([]string{name, at.name, theme}, "-"))
				require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), at.width, "%s is wider than the window", name)
			}
			ask[bool](p, `location.hash = "`+ofOrders+`", true`)
			p.click(".rule .edit")
			p.until("the form", `document.querySelector("dialog[open]")`)
			p.shoot("form-" + at.name + "-" + theme)
			p.click("dialog .buttons button:first-child")
		}
	}
}

// TestReadmeImage makes the screenshot of the README, when README_IMAGE names it.
func TestReadmeImage(t *testing.T) {
	t.Parallel()
	file := os.Getenv("README_IMAGE")
	if file == "" {
		t.Skip("README_IMAGE does not name a file")
	}
	url, _ := startExample(t)
	p := open(t, url+ofOrders)
	p.size(1180, 910, false)
	p.prefers("light", "no-preference")
	p.until("a resource", `document.querySelector(".chart.wide .line.pass")`)
	time.Sleep(62 * time.Second) // the whole minute of the charts
	image := p.image()
	require.Less(t, len(image), 150<<10)
	require.NoError(t, os.WriteFile(file, image, 0o644))
}
