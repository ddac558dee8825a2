package redistest

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// Proxy stands between clients and a server, and does to the bytes what a bad line does.
// Its methods may be called at any time.
type Proxy struct {
	addr, target string
	all          sync.WaitGroup

	mu       sync.Mutex // guards what is below
	fault    Fault
	listener net.Listener // nil: connections are refused
	links    map[*link]struct{}
}

// Fault is what is wrong with the line. The zero Fault is a good line.
type Fault struct {
	// Refuse refuses connections, and ends those that there are.
	Refuse bool
	// ToServer and ToClient are what happens to the bytes in each direction.
	ToServer, ToClient Stream
}

// Stream is what happens to the bytes of one direction.
type Stream struct {
	// Latency is how much later they arrive.
	Latency time.Duration
	// Swallow has them vanish, while the connection stays: the other side is gone, and
	// nobody told. New connections are accepted all the same. When the line is good
	// again, the connections that lost something end: no byte is ever missing between
	// two that arrive.
	Swallow bool
	// CutAfter ends the connection when so many more bytes have passed; 0 is never.
	CutAfter int
}

// NewProxy starts a proxy on a port of its own.
func NewProxy(target string) (*Proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), target: target, links: map[*link]struct{}{}}
	return p, p.listen()
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.addr }

// Set makes the line as bad as that. Bytes that wait for their latency wait on.
func (p *Proxy) Set(fault Fault) error {
	p.mu.Lock()
	p.fault = fault
	listens := p.listener != nil
	for l := range p.links {
		l.passed = [2]int{}
		if l.lost && !fault.ToServer.Swallow && !fault.ToClient.Swallow {
			l.close()
		}
	}
	p.mu.Unlock()
	switch {
	case fault.Refuse:
		p.shut()
	case !listens:
		return p.listen()
	}
	return nil
}

// Cut ends all connections; new ones may come.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Silence swallows what the current connections send from now on, in both directions, as after
// a router forgot them. New connections work. The next call of Set ends the silent ones.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.lost = true
	}
}

// Close ends it and everything that goes through it.
func (p *Proxy) Close() {
	p.shut()
	p.all.Wait()
}

func (p *Proxy) shut() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.connect(listener, client)
		}
	})
	return nil
}

// link is a client's connection and the one to the server.
type link struct {
	client, server net.Conn
	ended          chan struct{}
	once           sync.Once

	// Guarded by Proxy.mu:
	passed [2]int // bytes to the server and to the client since the fault was set
	lost   bool   // bytes were swallowed
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (p *Proxy) connect(listener net.Listener, client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil { // as when nobody listened
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener { // shut meanwhile
		l.close()
		return
	}
	p.links[l] = struct{}{}
	for direction, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
		chunks := make(chan chunk, 4096)
		p.all.Go(func() { p.read(l, direction, ends[0], chunks) })
		p.all.Go(func() { p.write(l, direction, ends[1], chunks) })
	}
}

// chunk is bytes and when they came.
type chunk struct {
	bytes []byte
	came  time.Time
}

func (p *Proxy) read(l *link, direction int, from net.Conn, chunks chan<- chunk) {
	defer close(chunks)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 && !p.swallows(l, direction) {
			chunks <- chunk{buffer[:n], time.Now()}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) swallows(l *link, direction int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.stream(direction).Swallow {
		l.lost = true
	}
	return l.lost
}

func (f Fault) stream(direction int) Stream { return [2]Stream{f.ToServer, f.ToClient}[direction] }

func (p *Proxy) write(l *link, direction int, to net.Conn, chunks <-chan chunk) {
	defer func() { // one end is closed: so is the other, and the link
		l.close()
		for range chunks { // lets the reader end
		}
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	for c := range chunks {
		if !p.delay(l, direction, c.came) {
			return
		}
		keep, cut := p.pass(l, direction, len(c.bytes))
		if _, err := to.Write(c.bytes[:keep]); err != nil || cut {
			return
		}
	}
}

// delay waits until what came then is due. It is false if the link has ended.
func (p *Proxy) delay(l *link, direction int, came time.Time) bool {
	p.mu.Lock()
	wait := time.Until(came.Add(p.fault.stream(direction).Latency))
	p.mu.Unlock()
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// pass says how many of n bytes may pass, and whether the link is cut then.
func (p *Proxy) pass(l *link, direction, n int) (keep int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.fault.stream(direction).CutAfter
	if after == 0 {
		return n, false
	}
	n = max(0, min(n, after-l.passed[direction]))
	l.passed[direction] += n
	return n, l.passed[direction] >= after
}
