package detect

import "net/netip"

func parseIP(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}
