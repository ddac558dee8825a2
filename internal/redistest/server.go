package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to do what it was told.
const patience = time.Minute

// Server is one redis-server. Its methods may be called at any time; each waits for the
// one before it.
type Server struct {
	port    int
	program Program
	dir     string
	args    []string

	mu   sync.Mutex // guards what is below
	cmd  *exec.Cmd  // nil: it does not run
	conn *Conn      // nil: none yet
}

// Start starts a server that keeps nothing on disk, and waits until it answers. The
// arguments are for redis-server: "--maxmemory", "10mb".
func Start(program Program, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	var failed error
	for range 5 { // another may take the port meanwhile
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s := &Server{port: port, program: program, dir: dir, args: args}
		if failed = s.Restart(); failed == nil {
			return s, nil
		}
	}
	return nil, errors.Join(failed, os.RemoveAll(dir))
}

// freePort finds a port that is not one of those that the system gives to clients: a
// server that was killed must find it free when it returns.
func freePort() (int, error) {
	var failed error
	for range 100 {
		port := 12_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("redistest: no port is free: %w", failed)
}

// Addr is where it listens, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Restart starts it again on the same port after [Server.Kill], with nothing in it, and
// waits until it answers.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := filepath.Join(s.dir, "log")
	cmd := s.program.command(append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--logfile", log,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.args...)...)
	dieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	s.cmd = cmd
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // that it was killed is no news
		close(ended)
	}()
	err := await(func() error {
		select {
		case <-ended:
			return errEnded
		default:
			_, err := s.do("PING")
			return err
		}
	})
	if err != nil {
		s.kill()
		text, _ := os.ReadFile(log)
		return fmt.Errorf("redistest: %v does not answer: %w\n%s", cmd.Args, err, text)
	}
	return nil
}

var errEnded = errors.New("the process has ended")

// await calls try until it returns no error, some seconds long.
func await(try func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if err := try(); err == nil || errors.Is(err, errEnded) || time.Now().After(deadline) {
			return err
		}
	}
}

// Kill ends it at once, as a crash does: with SIGKILL. What it held is lost.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	addr := s.Addr()
	_ = await(func() error { // until the port is free
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		return err
	})
	s.cmd = nil
}

// Pause stops it where it stands, with SIGSTOP: its port accepts connections, and nothing is
// answered until Resume.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets it go on after Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(which syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errEnded
	}
	return s.cmd.Process.Signal(which)
}

// Close kills it and removes its directory.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// Runs reports whether it was started, and not killed since.
func (s *Server) Runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// Do runs a command on it, over a connection of its own.
func (s *Server) Do(args ...string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(args...)
}

func (s *Server) do(args ...string) (any, error) {
	if s.conn == nil {
		conn, err := Dial(s.Addr())
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	reply, err := s.conn.Do(args...)
	if _, said := errors.AsType[Error](err); err != nil && !said {
		s.conn.Close()
		s.conn = nil
	}
	return reply, err
}
