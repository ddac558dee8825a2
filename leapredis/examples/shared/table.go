package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

// run starts the processes, prints what they were allowed, and sees to it that it was no
// more than the limit.
func run(ctx context.Context, out io.Writer, redis string, window time.Duration) (err error) {
	var server *redistest.Server
	if redis == "" {
		if server, err = start(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		redis = server.Addr()
		// After an interrupt, the server and its folder are removed. The processes end with their input.
		defer context.AfterFunc(ctx, func() {
			_ = server.Close()
			os.Exit(1)
		})()
	}
	fmt.Fprintf(out, "%d processes share %d calls in %v, through %s; each tries %d\n\n", processes, most, window, redis, 2*most)

	t := &table{out: out, window: window, rows: map[int64]*row{}}
	for i := range processes {
		end, failed := t.start(i, redis)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	t.begin()
	t.show(4)
	if server != nil {
		t.say("the server is killed: each goes on alone, with a third")
		server.Kill()
		t.show(3)
		if err := server.Restart(); err != nil {
			return err
		}
		t.say("the server is back, and has nothing")
		t.show(4)
	}
	return t.verify()
}

func start() (*redistest.Server, error) {
	program, err := redistest.Installed("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w\nor name one that runs, with -redis address", err)
	}
	return redistest.Start(program)
}

type table struct {
	out    io.Writer
	window time.Duration
	next   int64 // the window that is shown next
	shown  int

	mu   sync.Mutex // guards what is below
	rows map[int64]*row

	// The most in a window: through the server, without it, and of both together in one in
	// which the server went or came; and how many of those there were.
	shared, alone, together, both int
}

// row is what the processes were allowed in a window: with the server, and without it.
type row struct{ shared, alone [processes]int }

// start starts a process. end has it end, and waits.
func (t *table) start(i int, redis string) (end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-process", "-redis", redis, "-window", t.window.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(answers); lines.Scan(); {
			var number int64
			var degraded bool
			if _, err := fmt.Sscan(lines.Text(), &number, &degraded); err == nil {
				t.count(i, number, degraded)
			}
		}
	})
	return func() error {
		in.Close()
		read.Wait()
		return cmd.Wait()
	}, nil
}

func (t *table) count(process int, number int64, degraded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[number]
	if r == nil {
		r = new(row)
		t.rows[number] = r
	}
	if degraded {
		r.alone[process]++
	} else {
		r.shared[process]++
	}
}

// begin prints the head. What came before the first whole window is not shown.
func (t *table) begin() {
	fmt.Fprintf(t.out, "window  process 1  process 2  process 3   through the server   alone\n")
	t.next = time.Now().UnixNano()/int64(t.window) + 2
	t.until(t.next)
}

func (t *table) until(number int64) {
	time.Sleep(time.Until(time.Unix(0, number*int64(t.window))))
}

// show shows so many windows, each when it is over.
func (t *table) show(windows int) {
	for range windows {
		t.next++
		t.until(t.next)
		time.Sleep(t.window / 20) // for what is still on its way
		t.shown++
		t.mu.Lock()
		r := t.rows[t.next-1]
		if r == nil {
			r = new(row)
		}
		line := t.line(r)
		t.mu.Unlock()
		fmt.Fprintln(t.out, line)
	}
}

// line is how a window is shown. The lock is held.
func (t *table) line(r *row) string {
	line := fmt.Sprintf("%6d", t.shown)
	shared, alone := 0, 0
	for i := range processes {
		line += fmt.Sprintf("%11d", r.shared[i]+r.alone[i])
		shared += r.shared[i]
		alone += r.alone[i]
	}
	t.shared, t.alone = max(t.shared, shared), max(t.alone, alone)
	line += fmt.Sprintf("%21s%8s", of(shared), of(alone))
	if shared > 0 && alone > 0 {
		t.both++
		t.together = max(t.together, shared+alone)
		line += fmt.Sprintf("   one after the other: %d", shared+alone)
	}
	return line
}

func of(sum int) string {
	if sum == 0 {
		return "-"
	}
	return fmt.Sprint(sum)
}

func (t *table) say(what string) { fmt.Fprintf(t.out, "        %s\n", what) }

// verify says how many there were at most, and returns what was too many.
func (t *table) verify() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.shared > most:
		return fmt.Errorf("%d were allowed in a window through the server; want at most %d", t.shared, most)
	case t.alone > each*processes:
		return fmt.Errorf("%d were allowed in a window without the server; want at most %d, %d for each", t.alone, each*processes, each)
	case t.shared == 0:
		return errors.New("the server allowed none")
	}
	fmt.Fprintf(t.out, "\nthrough the server, no window had more than %d of %d\n", t.shared, most)
	if t.alone > 0 {
		fmt.Fprintf(t.out, "without it, none had more than %d of %d, %d for each process\n", t.alone, each*processes, each)
	}
	if t.both > 0 {
		fmt.Fprintf(t.out, "in %d, in which it answered for a part of the time, both held one after the other: at most %d together\n", t.both, t.together)
	}
	return nil
}
