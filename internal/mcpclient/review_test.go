package mcpclient_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestReview: tools that a review holds back are neither offered nor callable, on any connection. The cached list is reviewed as well.
func TestReview(t *testing.T) {
	t.Parallel()
	var held atomic.Pointer[[]string]
	var fresh atomic.Bool
	held.Store(&[]string{"", "echo"})
	var last atomic.Pointer[mcpclient.Server]
	opts := mcpclient.Options{
		CacheDir: t.TempDir(), OnChange: func(s mcpclient.Server) { last.Store(&s) },
		Review: func(_ context.Context, s mcpclient.Server) ([]string, bool) {
			if !slices.ContainsFunc(s.Tools, func(t mcpclient.Tool) bool { return t.Name == "echo" }) {
				t.Error("a review does not see the tool")
			}
			return *held.Load(), s.Cached && fresh.Load()
		},
	}
	server := bad(t, misbehave.Normal)
	m := setup(t, opts, server)
	offers := func(m *mcpclient.Manager) bool {
		return slices.ContainsFunc(m.Tools()[0].Tools, func(t mcpclient.Tool) bool { return t.Name == "echo" })
	}
	m.EnsureTools(ctxFor(t), "")
	if s := last.Load(); offers(m) || !slices.Equal(s.Held, []string{"", "echo"}) || m.Servers()[0].Held != 2 || s.Instructions != "" {
		t.Errorf("reported %+v", s.Status)
	}
	_, err := call(t, m, "echo", `{}`)
	wantIn(t, "the error", callError(t, err, mcpclient.KindRefused, false).Error(), "held until a person has reviewed it")
	if err := m.Reconnect(ctxFor(t), "", server.Name); err != nil {
		t.Fatal(err)
	}
	_, err = call(t, m, "echo", `{}`)
	callError(t, err, mcpclient.KindRefused, false)
	cached := setup(t, opts, server)
	if s := cached.Tools()[0]; !s.Known || !s.Cached || offers(cached) {
		t.Errorf("from the cache: %+v", s.Status)
	}
	fresh.Store(true)
	if s := setup(t, opts, server).Tools()[0]; s.Known {
		t.Errorf("a list from the cache that is not to be used: %+v", s.Status)
	}
	held.Store(&[]string{})
	if err := m.Review(server.Name); err != nil {
		t.Fatal(err)
	}
	if !offers(m) || !slices.ContainsFunc(last.Load().Tools, func(t mcpclient.Tool) bool { return t.Name == "echo" }) {
		t.Error("what is not held any more is not offered")
	}
	mustCall(t, m, "echo", `{}`)
	if err := m.Review("none"); err == nil {
		t.Error("no such server")
	}
}
