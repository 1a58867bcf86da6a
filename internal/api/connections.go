package api

import (
	clist "container/list" // list is a function of this package
	"context"
	"net"
	"net/netip"
	"sync"
)

// connectionLimits limits the number of open connections. A connection is new until a request on it has had a valid credential, and known from then
// on. The two kinds are counted separately, so that connections without credentials do not displace those with credentials.
type connectionLimits struct {
	newEach, newAll     int // maximum number of new connections of one client address, and of all addresses
	knownEach, knownAll int
}

// productLimits are the limits that Listen sets. Each new connection takes about 20 KiB of memory.
var productLimits = connectionLimits{newEach: 512, newAll: 1024, knownEach: 4096, knownAll: 8192}

// connections is a listener that limits the number of open connections. If an address has reached its limit, a new connection of this address
// displaces the oldest idle one of the same address. If the limit of all addresses is reached, a new connection displaces the oldest idle one of the
// address that has the most connections. If no such connection is idle, the new connection is closed.
type connections struct {
	net.Listener
	limits connectionLimits
	// trusted reports whether a peer is a proxy. Connections of a proxy carry requests of many clients, so they are known from the beginning.
	trusted func(netip.Addr) bool

	mu         sync.Mutex
	new, known pool
}

// pool holds the connections of one kind by client address, the oldest first.
type pool struct {
	n  int
	of map[netip.Addr]*clist.List
}

func listenBounded(l net.Listener, limits connectionLimits, trusted func(netip.Addr) bool) *connections {
	return &connections{
		Listener: l, limits: limits, trusted: trusted,
		new: pool{of: map[netip.Addr]*clist.List{}}, known: pool{of: map[netip.Addr]*clist.List{}},
	}
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		c := &counted{Conn: conn, of: l, from: addressBlock(peer.Addr())}
		if l.add(c, peer.Addr().Unmap()) {
			return c, nil
		}
		conn.Close()
	}
}

// addressBlock returns what counts as one client address: an IPv4 address, or the /64 network of an IPv6 address, because one host may own the whole
// network.
func addressBlock(ip netip.Addr) netip.Addr {
	if ip = ip.Unmap(); ip.Is6() {
		block, _ := ip.WithZone("").Prefix(64)
		return block.Addr()
	}
	return ip
}

// add counts a connection, and reports whether the limits allow it.
func (l *connections) add(c *counted, peer netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trusted != nil && l.trusted(peer) {
		return l.put(c, &l.known, l.limits.knownAll, l.limits.knownAll)
	}
	return l.put(c, &l.new, l.limits.newEach, l.limits.newAll)
}

// put adds a connection to a pool. If a limit is reached (each for one address, all for the pool), put first closes an idle connection. It returns
// false if none is idle.
func (l *connections) put(c *counted, to *pool, each, all int) bool {
	if own := to.of[c.from]; own != nil && own.Len() >= each && !evict(own) {
		return false
	}
	if to.n >= all {
		var most *clist.List
		for _, other := range to.of {
			if most == nil || other.Len() > most.Len() {
				most = other
			}
		}
		if most == nil || !evict(most) {
			return false
		}
	}
	own := to.of[c.from]
	if own == nil {
		own = clist.New()
		to.of[c.from] = own
	}
	to.n++
	c.in, c.at = to, own.PushBack(c)
	return true
}

// evict closes the oldest idle connection of a list, and reports whether there was one.
func evict(all *clist.List) bool {
	for e := all.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*counted); c.serving == 0 {
			c.leave()
			c.Conn.Close()
			return true
		}
	}
	return false
}

// counted is a connection that counts against the limits until it is closed.
type counted struct {
	net.Conn
	of   *connections
	from netip.Addr

	// The mutex of the listener guards the following fields.
	in      *pool // pool that counts the connection; nil after leave
	at      *clist.Element
	serving int // number of requests on the connection whose handlers have begun
}

// leave removes a connection from its pool.
func (c *counted) leave() {
	if c.in == nil {
		return
	}
	own := c.in.of[c.from]
	own.Remove(c.at)
	c.in.n--
	if own.Len() == 0 {
		delete(c.in.of, c.from)
	}
	c.in, c.at = nil, nil
}

// identified makes the connection known, after a request on it has had a valid credential. If the limits of known connections do not allow it, the connection
// stays new. On a nil connection, as in tests, identified does nothing.
func (c *counted) identified() {
	if c == nil {
		return
	}
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in != &l.new {
		return
	}
	before := *c
	if c.leave(); !l.put(c, &l.known, l.limits.knownEach, l.limits.knownAll) {
		l.put(c, before.in, l.limits.newEach+1, l.limits.newAll+1) // back to its previous pool, even if that is full
	}
}

// serve protects the connection from being evicted until done is called.
func (c *counted) serve() (done func()) {
	if c == nil {
		return func() {}
	}
	add := func(n int) {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.serving += n
	}
	add(1)
	return func() { add(-1) }
}

// CloseWrite closes the writing side, which lets net/http answer before it has read the whole request.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.of.mu.Lock()
	c.leave()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// withConn adds a connection to the context of its requests.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // a TLS connection
		conn = wrapped.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		ctx = context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
