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

	left atomic.Int64 // pieces that pass before the next cut; negative: no cut
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

// CutAfter cuts the connection of the piece that follows the next n-1 pieces of data, and then calls then unless it is nil. A negative n cuts none.
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

// Release ends Hold. Data that came in the meantime passes late.
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

// add notes an open connection, or closes it if the proxy has ended.
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

// wait returns when data may pass.
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

// pass passes data on until a connection ends. A piece is what one read returns.
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
