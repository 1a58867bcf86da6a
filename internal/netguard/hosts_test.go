package netguard_test

import (
	"testing"

	"mcp-code-exec-harness/internal/netguard"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	hosts := netguard.Hosts{"example.com", "*.Example.org", "api.example.net:8443", "bücher.example", "[2001:db8::1]:80", "192.0.2.1"}
	if err := hosts.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, port string
		want       bool
	}{
		{"example.com", "443", true},
		{"EXAMPLE.com.", "80", true},
		{"example.com", "8443", false},
		{"www.example.com", "443", false},
		{"evilexample.com", "443", false},
		{"example.com.evil.test", "443", false},
		{"a.b.example.org", "443", true},
		{"example.org", "443", false},
		{"evilexample.org", "443", false},
		{"api.example.net", "8443", true},
		{"api.example.net", "443", false},
		{"xn--bcher-kva.example", "443", true},
		{"2001:db8::1", "80", true},
		{"2001:db8:0::1", "443", false},
		{"192.0.2.1", "443", true},
		{"::ffff:192.0.2.1", "443", true},
	} {
		host, err := netguard.Host(c.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := hosts.Permit(host, c.port); got != c.want {
			t.Errorf("%s:%s: %v", c.host, c.port, got)
		}
	}
	for _, bad := range []string{"", "*", "*.", "*.*", "a*.example.com", "https://example.com", "example.com/", "example.com:", "example.com:http", "a b", "user@example.com"} {
		if err := (netguard.Hosts{bad}).Check(); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if (netguard.Hosts{}).Permit("example.com", "443") {
		t.Error("no hosts permit one")
	}
}
