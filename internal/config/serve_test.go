package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:3000": true, "127.1.2.3:0": true, "[::1]:3000": true, "localhost:80": true, "LocalHost:80": true, "[::ffff:127.0.0.1]:80": true,
		"0.0.0.0:3000": false, ":3000": false, "[::]:3000": false, "10.0.0.1:80": false, "localhost.example.com:80": false, "example.com:80": false, "": false,
	} {
		if got := (Server{Listen: address}).Local(); got != want {
			t.Errorf("%s: %v", address, got)
		}
		if (Server{Listen: address, TrustedProxies: []string{"127.0.0.1"}}).Local() {
			t.Errorf("%s behind a proxy is local", address)
		}
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	e := world(t, nil)
	e.Environ = []string{"HARNESS_SERVER_TRUSTED_PROXIES=10.1.2.3/8, ::1, 192.0.2.1"}
	c, _ := load(t, e)
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.1/32")}
	if got := c.Server.Proxies(); !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestServerCheck(t *testing.T) {
	t.Parallel()
	for _, c := range [...]struct{ file, environ, want string }{
		{"{}", "", ""},
		{"{metrics: {listen: '127.0.0.1:3000'}}", "", ""}, // the metrics server is disabled
		{"{metrics: {listen: '127.0.0.1:3000', enabled: true}}", "", "harness.yaml:1:28: server.metrics.listen: 127.0.0.1:3000 is the address of server.listen already; choose another port"},
		{"{internalListen: '127.0.0.1:9090', metrics: {enabled: true}}", "", "server.metrics.listen: 127.0.0.1:9090 is the address of server.internalListen already; choose another port"},
		{"{listen: '127.0.0.1:0', internalListen: '127.0.0.1:0'}", "", ""},
		{"{}", "METRICS_PORT=x", ""},
		{"{}", "METRICS_PORT=x METRICS_ENABLED=true", `environment variable METRICS_PORT: server.metrics.listen: "x" is no port; unset it, or set HARNESS_SERVER_METRICS_LISTEN to host:port`},
		{"{secret: '${NO}'}", "", "harness.yaml:1:18: server.secret: the variable NO is not set; set it in the environment or in .env, or write ${NO:-default}"},
		{"{secret: '${NO}'}", "SESSION_SECRET=0123456789abcdef0123456789abcdef", ""},
	} {
		e := world(t, map[string]string{"work/harness.yaml": "server: " + c.file + "\n"})
		e.Environ = strings.Fields(c.environ)
		cfg, _ := load(t, e)
		got := ""
		if err := cfg.Server.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.file, c.environ, got, c.want)
		}
	}
}

func TestWeakSecrets(t *testing.T) {
	t.Parallel()
	for secret, weak := range map[string]bool{
		"": false, "hunter2": true, "your-secret-key-that-is-long-enough": true, "please-change-me-in-production-now!": true,
		"9f86d081884c7d659a2feaa0c55ad015": false,
	} {
		e := world(t, map[string]string{"work/harness.yaml": "server: {webhooks: {secret: '" + secret + "'}}\n"})
		_, warnings := load(t, e)
		if len(warnings) > 0 != weak || strings.Contains(strings.Join(warnings, ""), "hunter2") {
			t.Errorf("%q: %v", secret, warnings)
		}
	}
}
