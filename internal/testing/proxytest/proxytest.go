// Package proxytest contains a proxy that disturbs the connections to a server. Only tests import it.
package proxytest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy passes connections on to a server. Its methods may be called concurrently.
type Proxy struct {
	listener net.Listener
	network  string
	server   string
	going    sync.WaitGroup

	left atomic.Int64 // pieces of data up to and including the next piece that is cut; no cut if not positive
	cuts atomic.Int64

	mu     sync.Mutex
	then   func() // called after a cut; may be nil
	open   map[net.Conn]bool
	held   chan struct{} // closed when data passes again; nil if data passes
	delay  time.Duration
	closed bool
}

// Start starts a proxy that listens on an address, and ends it with the test. The server need not run yet.
func Start(t testing.TB, network, address, serverNetwork, server string) *Proxy {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, network: serverNetwork, server: server, open: map[net.Conn]bool{}}
	p.left.Store(-1)
	p.going.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Release()
		p.listener.Close()
		p.Cut()
		p.going.Wait()
	})
	return p
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

// CutAfter lets n-1 more pieces of data pass, cuts the connection of the next piece, and then calls then unless it is nil. If n is negative,
// it cuts nothing.
func (p *Proxy) CutAfter(n int64, then func()) {
	p.mu.Lock()
	p.then = then
	p.mu.Unlock()
	p.left.Store(n)
}

// Cuts returns the number of connections that CutAfter has cut.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Hold makes the proxy accept connections and data, but pass nothing on until Release.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil && !p.closed {
		p.held = make(chan struct{})
	}
}

// Release ends Hold. The proxy then passes on what it has received meanwhile.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Delay delays each piece of data from now on.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.going.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	p.wait()
	server, err := net.Dial(p.network, p.server)
	if err != nil || !p.add(server) {
		return
	}
	defer p.remove(server)
	back := make(chan struct{})
	p.going.Go(func() {
		defer close(back)
		p.pass(server, client)
	})
	p.pass(client, server)
	<-back
}

// add records an open connection and returns true. If the proxy has ended, it closes the connection.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) remove(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// wait waits until data may pass: until Release, and for the delay.
func (p *Proxy) wait() {
	p.mu.Lock()
	held, delay := p.held, p.delay
	p.mu.Unlock()
	if held != nil {
		<-held
	}
	if delay > 0 {
		time.Sleep(delay)
	}
}

// pass passes data on until a connection ends. A piece of data is the result of one read.
func (p *Proxy) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		p.wait()
		if p.left.Add(-1) == 0 {
			p.cuts.Add(1)
			from.Close()
			to.Close()
			p.mu.Lock()
			then := p.then
			p.mu.Unlock()
			if then != nil {
				then()
			}
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}
