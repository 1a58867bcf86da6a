package api

import (
	clist "container/list" // list is a function of this package
	"context"
	"net"
	"net/netip"
	"sync"
)

// connectionLimits are the most connections that are open at the same time. A connection is new until a request on it had a valid
// credential, and known from then on: connections without credentials take no place of those that have some.
type connectionLimits struct {
	newEach, newAll     int // new connections of one client address, and of all
	knownEach, knownAll int
}

// productLimits hold about 20 KiB for each new connection.
var productLimits = connectionLimits{newEach: 512, newAll: 1024, knownEach: 4096, knownAll: 8192}

// connections is a listener that bounds open connections. Above a bound the oldest connection gives way that is not being served: of the
// same address, or of the address that has the most. Where there is none, the newcomer is closed.
type connections struct {
	net.Listener
	limits connectionLimits
	// trusted says whether a peer is a proxy: its connections are those of many clients, and known from the beginning.
	trusted func(netip.Addr) bool

	mu         sync.Mutex
	new, known pool
}

// pool holds the connections of a kind, by client address, the oldest first.
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

// addressBlock is what counts as one client address: an IPv4 address, or the /64 network of an IPv6 one, which one host may have whole.
func addressBlock(ip netip.Addr) netip.Addr {
	if ip = ip.Unmap(); ip.Is6() {
		block, _ := ip.WithZone("").Prefix(64)
		return block.Addr()
	}
	return ip
}

// add counts a connection, unless there is no place for it.
func (l *connections) add(c *counted, peer netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trusted != nil && l.trusted(peer) {
		return l.put(c, &l.known, l.limits.knownAll, l.limits.knownAll)
	}
	return l.put(c, &l.new, l.limits.newEach, l.limits.newAll)
}

// put adds a connection to a pool, for which others may have to give way, and says whether there is a place.
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

// evict closes the oldest connection of a list that is not being served, and says whether there was one.
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

// counted is a connection that counts against the bounds until it is closed.
type counted struct {
	net.Conn
	of   *connections
	from netip.Addr

	// The lock of the listener guards these.
	in      *pool // nil: it is not counted any more
	at      *clist.Element
	serving int // requests on it whose handlers have begun
}

// leave takes a connection out of its pool.
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

// identified notes that a request on the connection had a valid credential. Where there is no place among the known ones, it stays new. The
// method of a nil connection, as those of tests, does nothing.
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
		l.put(c, before.in, l.limits.newEach+1, l.limits.newAll+1) // its previous place
	}
}

// serve says that the connection must stay open for a request until done is called.
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

// CloseWrite lets net/http answer before it has read the whole request.
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

// withConn is the context of the requests of a connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = wrapped.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		ctx = context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
