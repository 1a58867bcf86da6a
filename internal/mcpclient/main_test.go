package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// holdVar is the variable that makes this binary a program that holds a manager and waits to be killed; see TestKilledHarness.
const holdVar = "HOLD_SERVERS"

// modernVar is the variable that makes this binary a stdio server of the newest protocol version; see TestModernStdio.
const modernVar = "MODERN_SERVER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervisor.Command {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == confine.Command {
		os.Exit(confine.Main(os.Args[2:]))
	}
	misbehave.Main()
	if os.Getenv(hostileVar) != "" {
		hostile()
	}
	if order := os.Getenv(keepVar); order != "" {
		keep(order)
	}
	if os.Getenv(modernVar) != "" {
		modern()
	}
	if pids := os.Getenv(holdVar); pids != "" {
		hold(pids)
	}
	mcpclient.SetDiscoverGrace(15 * time.Second)
	goleak.VerifyTestMain(m)
}

// patience bounds every wait in the tests. Only a failing test reaches it.
const patience = 2 * time.Minute

func ctxFor(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// setup returns a manager, which it closes at the end of the test within the grace periods of child processes.
func setup(t testing.TB, opts mcpclient.Options, configs ...mcpclient.Config) *mcpclient.Manager {
	t.Helper()
	m := mcpclient.NewManager(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for _, cfg := range configs {
		if err := m.Add(cfg); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// bad returns the configuration of a server of the given kind, named "bad".
func bad(t testing.TB, kind string) mcpclient.Config {
	t.Helper()
	self := child.Executable(t)
	return mcpclient.Config{
		Name: "bad", Command: self, Env: misbehave.Env(kind, filepath.Join(t.TempDir(), "pids")),
		StartupTimeout: patience, Timeout: patience,
	}
}

func call(t *testing.T, m *mcpclient.Manager, tool, args string) (*mcpclient.Result, error) {
	t.Helper()
	return m.Call(ctxFor(t), "bad", tool, json.RawMessage(args), mcpclient.CallOptions{})
}

func mustCall(t *testing.T, m *mcpclient.Manager, tool, args string) *mcpclient.Result {
	t.Helper()
	res, err := call(t, m, tool, args)
	if err != nil {
		t.Fatalf("call %s: %v", tool, err)
	}
	return res
}

// callError asserts the type of an error, its kind and whether the call was sent, on which the gate's decision depends.
func callError(t *testing.T, err error, kind mcpclient.Kind, sent bool) *mcpclient.CallError {
	t.Helper()
	var ce *mcpclient.CallError
	if !errors.As(err, &ce) {
		t.Fatalf("got %T (%v), want *CallError", err, err)
	}
	if ce.Kind != kind || ce.Sent != sent {
		t.Fatalf("got kind %q, sent %t (%v), want %q, %t", ce.Kind, ce.Sent, err, kind, sent)
	}
	return ce
}

func wantIn(t *testing.T, what, have string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(have, w) {
			t.Errorf("%s does not contain %q: %s", what, w, have)
		}
	}
}

// eventually polls a condition that no signal announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func status(t *testing.T, m *mcpclient.Manager, name string) mcpclient.Status {
	t.Helper()
	for _, s := range m.Servers() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no server %q", name)
	return mcpclient.Status{}
}
