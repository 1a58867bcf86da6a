package api

import (
	"net"
	"net/netip"
	"sync"
)

// The most connections that are open at the same time.
const (
	addressConnections = 4096 // of one client address
	allConnections     = 8192
)

// connections is a listener that closes connections above its bounds.
type connections struct {
	net.Listener
	each, all int

	mu   sync.Mutex
	n    int
	from map[netip.Addr]int
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		if c := (&counted{Conn: conn, of: l, from: peer.Addr()}); l.add(c.from) {
			return c, nil
		}
		conn.Close()
	}
}

// add counts a connection, unless there are too many.
func (l *connections) add(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= l.all || l.from[from] >= l.each {
		return false
	}
	l.n++
	l.from[from]++
	return true
}

// counted is a connection that counts against the bounds until it is closed.
type counted struct {
	net.Conn
	of   *connections
	from netip.Addr
	once sync.Once
}

// CloseWrite lets net/http answer before it has read the whole request.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.n--
		if c.of.from[c.from]--; c.of.from[c.from] == 0 {
			delete(c.of.from, c.from)
		}
	})
	return c.Conn.Close()
}
