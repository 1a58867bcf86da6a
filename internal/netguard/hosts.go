package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Hosts are the hosts to which requests are permitted. An entry is a name, an address or HOST:PORT. An entry without a port permits the ports
// 80 and 443. *.example.com permits every name below example.com. The zero value permits no host.
type Hosts []string

// Check returns an error for the first invalid entry.
func (h Hosts) Check() error {
	for _, entry := range h {
		host, port := splitPort(entry)
		host = strings.TrimPrefix(host, "*.")
		if _, err := Host(host); err != nil || strings.ContainsAny(host, "*/@ ") || port != "" && !isPort(port) || strings.HasSuffix(entry, ":") {
			return fmt.Errorf("%q is not a host", entry)
		}
	}
	return nil
}

// Permit reports whether requests to a port of a host are permitted. The host has the form that [Host] returns.
func (h Hosts) Permit(host, port string) bool {
	return slices.ContainsFunc(h, func(entry string) bool {
		name, only := splitPort(entry)
		if only != port && (only != "" || port != "80" && port != "443") {
			return false
		}
		below, wild := strings.CutPrefix(name, "*.")
		name, err := Host(below)
		if wild {
			return err == nil && strings.HasSuffix(host, "."+name)
		}
		return err == nil && name == host
	})
}

// Host returns a host in the form that is compared and resolved: ASCII, in lower case, without a dot at the end.
func Host(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || ascii == "" {
		return "", errors.New("it names no host")
	}
	return strings.ToLower(ascii), nil
}

// splitPort splits an entry into host and port. An IPv6 address with a port is in brackets.
func splitPort(entry string) (host, port string) {
	if host, port, err := net.SplitHostPort(entry); err == nil {
		return host, port
	}
	return strings.Trim(entry, "[]"), ""
}

func isPort(s string) bool { return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == "" }
