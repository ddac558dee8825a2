//go:build e2e

package redis

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leapredis"
)

// workerEnv tells this test program to be one of the processes of a hammer.
const workerEnv = "LEAPGATE_E2E_WORKER"

// job is what a process is told to do: so many goroutines ask each limiter as often as
// they can.
type job struct {
	Addrs      []string
	Silent     time.Duration // as in connection
	Limiters   []portable
	Kinds      []string      // of each: counter, log or burst
	InFlight   *flight       // in place of all limiters
	Goroutines int           // for each limiter
	Pause      time.Duration // between two calls of a goroutine
	Lasting    time.Duration
}

// portable is a configuration that can be sent, since it has no function.
type portable struct {
	leapredis.Config
	LimitFor *struct{} // stands for that of Config
}

// report is what a process did, for each limiter.
type report struct {
	Admissions []admission
	Refused    int64
	Degraded   int64 // whatever the answer
	Errors     map[string]int64
	Longest    time.Duration // the longest call
	Link       leapredis.Link
}

// admission is one permit, and what is known about when the server gave it: after the call
// began and before it ended, in microseconds of the clock that the server reads, too.
type admission struct{ Sent, Seen int64 }

// hot is the key that all ask for.
const hot = "hot"

// work is the life of a process: it reads its job, says that it is ready, waits for a
// line, does it, and reports. It ends with its parent, which holds the other end of in.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	client, hangUp, err := viaRueidis(connection{addrs: j.Addrs, silent: j.Silent})
	if err != nil {
		return err
	}
	defer hangUp()
	var limiters []limiter
	for i, cfg := range j.Limiters {
		var l limiter
		switch j.Kinds[i] {
		case "log":
			l, err = leapredis.NewLog(client, usual(cfg.Config))
		case "burst":
			l, err = leapredis.NewBurst(client, usual(cfg.Config))
		default:
			l, err = leapredis.NewCounter(client, usual(cfg.Config))
		}
		if err != nil {
			return err
		}
		limiters = append(limiters, l)
		if _, err := l.Peek(context.Background(), hot); err != nil { // so that it is connected
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	if _, err := lines.ReadBytes('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		os.Exit(1) // the parent is gone
	}()
	if j.InFlight != nil {
		return gob.NewEncoder(out).Encode([]report{j.InFlight.work(client, j)})
	}
	reports := make([]report, len(limiters))
	var mu sync.Mutex // guards reports
	var done sync.WaitGroup
	end := time.Now().Add(j.Lasting)
	for i, l := range limiters {
		for range j.Goroutines {
			done.Go(func() {
				r := ask(l, end, j.Pause)
				mu.Lock()
				defer mu.Unlock()
				reports[i].merge(r)
			})
		}
	}
	done.Wait()
	for i, l := range limiters {
		reports[i].Link = l.Link()
		if err := l.Close(); err != nil {
			return err
		}
	}
	return gob.NewEncoder(out).Encode(reports)
}

func ask(l limiter, end time.Time, pause time.Duration) report {
	r := report{Errors: map[string]int64{}}
	timer := time.NewTimer(0)
	<-timer.C
	for before := time.Now(); before.Before(end); {
		d, err := l.AllowN(context.Background(), hot, 1)
		after := time.Now()
		r.Longest = max(r.Longest, after.Sub(before))
		wait := pause
		switch {
		case err != nil:
			r.Errors[err.Error()]++
		case d.Degraded:
			r.Degraded++
		case d.Allowed:
			r.Admissions = append(r.Admissions, admission{before.UnixMicro(), after.UnixMicro() + 1})
		default:
			r.Refused++
			wait = max(wait, 300*time.Microsecond) // it may not have asked the server
		}
		if wait > 0 {
			timer.Reset(wait)
			<-timer.C
			after = time.Now()
		}
		before = after
	}
	return r
}

func (r *report) merge(other report) {
	r.Admissions = append(r.Admissions, other.Admissions...)
	r.Refused += other.Refused
	r.Degraded += other.Degraded
	r.Longest = max(r.Longest, other.Longest)
	if r.Errors == nil {
		r.Errors = map[string]int64{}
	}
	for text, n := range other.Errors {
		r.Errors[text] += n
	}
	r.Link.RoundTrips += other.Link.RoundTrips
	r.Link.Leased += other.Link.Leased
}

// crew is the processes of a hammer.
type crew struct {
	t       *testing.T
	workers []worker
}

type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// hire starts so many processes, which wait.
func hire(t *testing.T, processes int, j job) *crew {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	c := &crew{t: t}
	for range processes {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Process.Kill() // if it has not ended by itself
			_ = cmd.Wait()
		})
		_, err = fmt.Fprintf(in, "%s\n", text)
		require.NoError(t, err)
		c.workers = append(c.workers, worker{cmd, in, bufio.NewReaderSize(out, 1<<20)})
	}
	for _, w := range c.workers {
		line, err := w.out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready", strings.TrimSpace(line))
	}
	return c
}

// begin has them start.
func (c *crew) begin() {
	for _, w := range c.workers {
		_, err := io.WriteString(w.in, "go\n")
		require.NoError(c.t, err)
	}
}

// kill kills the first of them.
func (c *crew) kill() {
	w := c.workers[0]
	c.workers = c.workers[1:]
	require.NoError(c.t, w.cmd.Process.Kill())
	_ = w.cmd.Wait()
}

// end waits for what they report, together, for each limiter.
func (c *crew) end() []report {
	var all []report
	for _, w := range c.workers {
		var reports []report
		require.NoError(c.t, gob.NewDecoder(w.out).Decode(&reports))
		all = append(all, make([]report, len(reports)-len(all))...)
		for i, r := range reports {
			all[i].merge(r)
		}
	}
	return all
}
