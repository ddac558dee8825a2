//go:build e2e

package redistest

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func start(t *testing.T, args ...string) *Server {
	t.Helper()
	program, err := Installed("redis-server")
	require.NoError(t, err)
	s, err := Start(program, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestServer_ReturnsEmptyOnTheSamePort(t *testing.T) {
	t.Parallel()
	s := start(t, "--maxmemory", "20mb")
	addr := s.Addr()
	_, err := s.Do("SET", "a", "1")
	require.NoError(t, err)
	s.Kill()
	_, err = net.Dial("tcp", addr)
	require.Error(t, err)
	require.NoError(t, s.Restart())
	require.Equal(t, addr, s.Addr())
	got, err := s.Do("GET", "a")
	require.NoError(t, err)
	require.Nil(t, got)
	got, err = s.Do("CONFIG", "GET", "maxmemory")
	require.NoError(t, err)
	require.Equal(t, []any{"maxmemory", "20971520"}, got)
	_, err = s.Do("NO", "SUCH")
	require.ErrorAs(t, err, new(Error))
}

func TestServer_SaysWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := Installed("no-such-server")
	require.ErrorContains(t, err, "apt-get install redis-server")
	_, err = Unpacked(t.TempDir(), "redis-server")
	require.ErrorContains(t, err, "debootstrap")
	_, err = Start(Program{"/bin/false"})
	require.ErrorContains(t, err, "has ended")
}

func TestServer_NewerOne(t *testing.T) {
	t.Parallel()
	root := os.Getenv(Env)
	if root == "" {
		t.Skip(Env + " names no system")
	}
	program, err := Unpacked(root, "redis-server")
	require.NoError(t, err)
	s, err := Start(program)
	require.NoError(t, err)
	defer s.Close()
	info, err := s.Do("COMMAND", "INFO", "hpexpire")
	require.NoError(t, err)
	require.Equal(t, "hpexpire", info.([]any)[0].([]any)[0])
}

func TestCluster_ReplacesAPrimary(t *testing.T) {
	t.Parallel()
	program, err := Installed("redis-server")
	require.NoError(t, err)
	c, err := StartCluster(program)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Len(t, c.Addrs(), 6)
	was, err := c.Owner("a")
	require.NoError(t, err)
	_, err = c.Nodes[was].Do("SET", "a", "1")
	require.NoError(t, err)
	_, err = c.Nodes[was].Do("WAIT", "1", "1000")
	require.NoError(t, err)
	c.Nodes[was].Kill()
	require.NoError(t, c.Await())
	is, err := c.Owner("a")
	require.NoError(t, err)
	require.Equal(t, was+3, is)
	got, err := c.Nodes[is].Do("GET", "a")
	require.NoError(t, err)
	require.Equal(t, "1", got)
	require.NoError(t, c.Nodes[was].Restart())
	require.NoError(t, c.Await())
}

func TestProxy_Faults(t *testing.T) {
	t.Parallel()
	s := start(t)
	p, err := NewProxy(s.Addr())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	dial := func() *Conn {
		c, err := Dial(p.Addr())
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	ping := func(c *Conn) error { _, err := c.Do("PING"); return err }
	c := dial()
	require.NoError(t, ping(c))

	require.NoError(t, p.Set(Fault{ToServer: Stream{Latency: 60 * time.Millisecond}, ToClient: Stream{Latency: 40 * time.Millisecond}}))
	began := time.Now()
	for range 20 { // all at once: latency is no bottleneck
		require.NoError(t, c.Send("PING"))
	}
	for range 20 {
		_, err := c.Receive()
		require.NoError(t, err)
	}
	took := time.Since(began)
	require.GreaterOrEqual(t, took, 100*time.Millisecond)
	require.Less(t, took, time.Second)

	require.NoError(t, p.Set(Fault{ToClient: Stream{CutAfter: 3}}))
	require.Error(t, ping(c))
	for _, cut := range []int{1, 7} { // +PONG, CR and LF are seven
		require.NoError(t, p.Set(Fault{ToClient: Stream{CutAfter: cut}}))
		c = dial()
		require.Equal(t, cut == 7, ping(c) == nil)
		require.Error(t, ping(c))
	}

	require.NoError(t, p.Set(Fault{}))
	c = dial()
	require.NoError(t, ping(c))
	require.NoError(t, p.Set(Fault{ToClient: Stream{Swallow: true}}))
	other := dial()
	require.NoError(t, c.Send("INCR", "a"))
	require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Receive()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	got, err := s.Do("GET", "a")
	require.NoError(t, err)
	require.Equal(t, "1", got, "it was done, and nobody heard of it")
	require.NoError(t, p.Set(Fault{}))
	require.Error(t, ping(c), "a connection that lost something ends")
	require.NoError(t, ping(other))

	require.NoError(t, p.Set(Fault{Refuse: true}))
	require.Error(t, ping(other))
	_, err = net.Dial("tcp", p.Addr())
	require.Error(t, err)
	require.NoError(t, p.Set(Fault{}))
	require.NoError(t, ping(dial()))
	p.Cut()
	s.Kill()
	c, err = Dial(p.Addr())
	if err == nil {
		require.Error(t, ping(c))
	}
	require.NoError(t, s.Restart())
	require.NoError(t, ping(dial()))
}
