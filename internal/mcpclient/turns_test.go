package mcpclient_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestStartsAreBounded: of many servers only a few start at a time, and the timeout of each begins with its own start.
func TestStartsAreBounded(t *testing.T) {
	t.Parallel()
	const rounds = 3
	timeout := 200 * time.Millisecond
	var all []mcpclient.Config
	for i := range rounds * mcpclient.MaxStarts {
		cfg := bad(t, misbehave.Hangs)
		cfg.Name, cfg.StartupTimeout = fmt.Sprintf("hangs%d", i), timeout
		all = append(all, cfg)
	}
	good := bad(t, misbehave.Normal)
	m := setup(t, mcpclient.Options{}, append(all, good)...)
	began := time.Now()
	for _, s := range m.Start(ctxFor(t)) {
		switch {
		case s.Name == good.Name && s.State != mcpclient.StateReady:
			t.Errorf("%s: %s", s.Name, s.Reason)
		case s.Name != good.Name && !strings.Contains(s.Reason, " within 200ms"):
			t.Errorf("%s: %s", s.Name, s.Reason)
		}
	}
	if took := time.Since(began); took < rounds*timeout {
		t.Errorf("%d servers that need %s each, %d at a time, took %s", len(all), timeout, mcpclient.MaxStarts, took)
	}
}
