package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is a connection to a server, without any of the cleverness of a client: one
// command after the other, and no command twice.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Error is what a server says instead of a reply: "ERR unknown command".
type Error string

func (e Error) Error() string { return string(e) }

// Dial connects to a server.
func Dial(addr string) (*Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, bufio.NewReader(conn)}, nil
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// Do runs a command. The reply is nil, a string, an int64, or a slice of those; what the
// server refuses is an [Error].
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send sends a command. Many may be sent before the first reply is received.
func (c *Conn) Send(args ...string) error {
	line := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		line = fmt.Appendf(line, "$%d\r\n%s\r\n", len(a), a)
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(line)
	return err
}

// Receive returns the reply to the first command that has none yet.
func (c *Conn) Receive() (any, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("redistest: the server says %q", line)
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return nil, Error(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, err
		}
		bulk := make([]byte, n+2)
		if _, err := io.ReadFull(c.in, bulk); err != nil {
			return nil, err
		}
		return string(bulk[:n]), nil
	case '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, err
		}
		all := make([]any, n)
		for i := range all {
			if all[i], err = c.Receive(); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("redistest: the server says %q", line)
}
