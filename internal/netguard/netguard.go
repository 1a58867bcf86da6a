// Package netguard prevents requests from reaching this machine and its networks if the addresses of the requests come from untrusted sources.
package netguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrPrivate is the error for an address that is not public.
var ErrPrivate = errors.New("loopback and private addresses are refused")

// Public reports whether an address belongs to the public internet.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap()
	for _, reserved := range reservedNetworks {
		if reserved.Contains(ip) {
			return false
		}
	}
	if inner, ok := isatap(ip); ok && !Public(inner) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}

// isatap returns the IPv4 address at the end of an ISATAP address (RFC 5214), which can have any prefix.
func isatap(ip netip.Addr) (inner netip.Addr, ok bool) {
	if !ip.Is6() {
		return inner, false
	}
	b := ip.As16()
	ok = b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
	return netip.AddrFrom4([4]byte(b[12:])), ok
}

// reservedNetworks are networks that are not public although RFC 1918 does not list them, from IANA's registries of special addresses
// (RFC 6890). The IPv4-compatible, IPv4-translated (RFC 2765), NAT64, Teredo and 6to4 prefixes lead to IPv4 addresses of any kind.
// 168.63.129.16 serves secrets to Azure's machines.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0:0/96"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("100::/32"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"), netip.MustParsePrefix("fec0::/10"),
}

// Named reports whether a host is an address that allowed rejects. A name for loopback, such as localhost, counts as the address 127.0.0.1. For any
// other name, Named returns false: Dialer checks the addresses to which the name resolves.
func Named(host string, allowed func(netip.Addr) bool) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		ip, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	return err == nil && !allowed(ip)
}

// Dialer returns a function that connects, within timeout, to addresses that allowed accepts. Other addresses fail with ErrPrivate. The check uses
// the address of the connection, so a name cannot resolve to another address after the check.
func Dialer(timeout time.Duration, allowed func(netip.Addr) bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(to.Addr().Unmap()) {
			return ErrPrivate
		}
		return nil
	}}
	return d.DialContext
}
