//go:build !linux

package mcpclient_test

import (
	"os"
	"testing"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/mcpclient"
)

const (
	hostileVar = "HOSTILE_SERVER"
	keepVar    = "KEEP_SERVER"
)

func hostile() {}

func keep(string) {}

// TestSandboxRefused: on systems other than Linux a server that is configured with a sandbox does not start.
func TestSandboxRefused(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := setup(t, mcpclient.Options{}, mcpclient.Config{Name: "bad", Command: self, Sandbox: &confine.Sandbox{}})
	m.Start(ctxFor(t))
	s := status(t, m, "bad")
	if s.State != mcpclient.StateFailed {
		t.Errorf("%+v", s)
	}
	wantIn(t, "reason", s.Reason, "only Linux has the walls")
}
