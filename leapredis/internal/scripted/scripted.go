// Package scripted has what all adapters are tested with, and a server for it that needs no
// network: what it replies is what the test says, byte for byte.
package scripted

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Server answers the commands of all its connections.
type Server struct {
	// Answer returns the reply to a command, as bytes of the protocol, or what [Cut] returns;
	// "" cuts the connection. It is called by one goroutine at a time.
	Answer func(command []string) string

	mu    sync.Mutex
	calls [][]string
	conns sync.WaitGroup
}

// end is not of the protocol.
const end = "\x00cut"

// Cut is a reply after which the connection is cut.
func Cut(reply string) string { return reply + end }

// Dial makes a connection.
func (s *Server) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	s.conns.Go(func() {
		defer func() { _ = server.Close() }()
		in := bufio.NewReader(server)
		for {
			command, err := read(in)
			if err != nil {
				return
			}
			reply := s.handle(command)
			whole, cut := strings.CutSuffix(reply, end)
			if _, err := io.WriteString(server, whole); cut || reply == "" || err != nil {
				return
			}
		}
	})
	return client, nil
}

// Wait waits until all connections have ended.
func (s *Server) Wait() { s.conns.Wait() }

// Calls returns the scripts that were called: EVAL and EVALSHA with all their arguments.
func (s *Server) Calls() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.calls...)
}

func (s *Server) handle(command []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch name := strings.ToUpper(command[0]); name {
	case "EVAL", "EVALSHA":
		command[0] = name
		s.calls = append(s.calls, command)
		return s.Answer(command)
	case "HELLO":
		if len(command) > 1 && command[1] == "2" {
			return "*2\r\n$5\r\nproto\r\n:2\r\n"
		}
		return "-ERR unknown command\r\n"
	case "PING":
		return "+PONG\r\n"
	default:
		return "+OK\r\n"
	}
}

// read reads a command: an array of strings.
func read(in *bufio.Reader) ([]string, error) {
	count, err := number(in)
	if err != nil {
		return nil, err
	}
	command := make([]string, count)
	for i := range command {
		length, err := number(in)
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:length])
	}
	return command, nil
}

// number reads the number of a line such as *3 or $12.
func number(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
