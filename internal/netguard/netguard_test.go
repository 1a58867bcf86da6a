package netguard_test

import (
	"fmt"
	"net/netip"
	"testing"

	"mcp-code-exec-harness/internal/netguard"
)

// TestPublic: an address that leads to a private IPv4 address is refused in each form that contains an IPv4 address. Public addresses are accepted.
func TestPublic(t *testing.T) {
	t.Parallel()
	for _, private := range []string{"127.0.0.1", "10.1.2.3", "172.20.0.9", "192.168.7.7", "169.254.169.254", "100.64.0.1", "0.0.0.0"} {
		b := netip.MustParseAddr(private).As4()
		hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
		for _, form := range []string{
			private, "::ffff:" + private, "::" + private, "::ffff:0:" + private, "64:ff9b::" + private, "64:ff9b:1::" + private,
			"2002:" + hex + "::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700::5efe:" + hex, "2606:4700::200:5efe:" + hex,
		} {
			if ip := netip.MustParseAddr(form); netguard.Public(ip) {
				t.Errorf("%s is public", ip)
			}
		}
	}
	for _, other := range []string{"::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "224.0.0.1", "255.255.255.255", "100::1", "2001:db8::1"} {
		if ip := netip.MustParseAddr(other); netguard.Public(ip) {
			t.Errorf("%s is public", ip)
		}
	}
	for _, public := range []string{"1.1.1.1", "8.8.8.8", "::ffff:1.1.1.1", "2606:4700::1111", "2a00:1450:4001::200e", "2606:4700::5efe:101:101"} {
		if ip := netip.MustParseAddr(public); !netguard.Public(ip) {
			t.Errorf("%s is not public", ip)
		}
	}
}
