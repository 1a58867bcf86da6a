package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/answers"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/store/sqlstore"
)

// keeping lets the gate keep the answers of crm for five minutes, in a store of its own. Each answer of the server is different.
func (f *fixture) keeping(t *testing.T, path string) *answers.Cache {
	t.Helper()
	f.now = time.Now().Truncate(time.Microsecond) // the store looks at the time of the machine
	store, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	keys, err := seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New([]policy.Rule{{Tools: []string{"crm__*"}, When: policy.When{OpenWorld: &yes}, Cache: "5m", Action: policy.Allow}}, "", nil, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	cache := &answers.Cache{
		Store: func() (answers.Store, error) { return store, nil }, Keys: func() (*seal.Keys, error) { return keys, nil }, Now: func() time.Time { return f.now },
	}
	n := 0
	f.servers.answer = func(_ context.Context, _, tool string, _ json.RawMessage) (*mcpclient.Result, error) {
		n++
		return result(fmt.Sprintf(`{"content":[{"type":"text","text":"answer %d of %s"}]}`, n, tool)), nil
	}
	f.options.Policy, f.options.Answers = p, cache
	f.as("ann")
	return cache
}

// as begins another run of a user.
func (f *fixture) as(user string) {
	f.scope.User, f.calls = user, 0
	f.gate = gate.New(f.options)
	f.Run = f.gate.Open(f.scope)
}

// asked returns how many calls the server has got.
func (f *fixture) asked() int { return len(f.servers.called) }

// TestKept: the answer of an earlier call is given for the same user, tool, definition and arguments, until it is too old or something may have changed.
func TestKept(t *testing.T) {
	t.Parallel()
	f := setup(t)
	path := filepath.Join(t.TempDir(), "harness.db")
	f.keeping(t, path)
	want := func(what string, asked int, kept bool) string {
		t.Helper()
		before := len(f.kept)
		value := f.tool("crm__search", `{"q":"ada@acme.com"}`)
		if f.asked() != asked || (len(f.kept) > before) != kept {
			t.Errorf("%s: %d calls, want %d; kept %v", what, f.asked(), asked, f.kept)
		}
		return value
	}
	first := want("the first", 1, false)
	began := f.now
	f.now = f.now.Add(4 * time.Minute)
	if again := want("the same", 1, true); again != first || !f.kept[0].Equal(began) {
		t.Errorf("got %s of %s, then %s", first, f.kept[0], again)
	}
	f.as("ann")
	want("another run", 1, true)
	f.tool("crm__search", `{"q":"bob"}`)
	f.as("bob")
	want("another user", 3, false)
	want("that user again", 3, true)
	f.as("ann")
	f.now = f.now.Add(2 * time.Minute)
	want("too old", 4, false)

	f.tool("crm__create_note", `{}`)
	want("after a write", 6, false)
	want("and again", 6, true)

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if wal, err := os.ReadFile(path + "-wal"); err == nil {
		text = append(text, wal...)
	}
	for _, value := range []string{"ada@acme.com", "answer 1 of"} {
		if strings.Contains(string(text), value) {
			t.Errorf("the store has %q", value)
		}
	}

	changed := crm
	changed.Tools = slices.Clone(crm.Tools)
	changed.Tools[0].Description = "Searches more."
	f.catalog.SetServer(changed)
	want("another definition", 7, false)
	f.servers.stateful = map[string]bool{"crm": true}
	want("a server with state", 8, false)
}

// TestKeptFailures: an error of the tool is not kept. A write is not sent if kept answers could outlive it; one that fails ends them all the same.
func TestKeptFailures(t *testing.T) {
	t.Parallel()
	f := setup(t)
	cache := f.keeping(t, filepath.Join(t.TempDir(), "harness.db"))
	good := f.servers.answer
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"isError":true,"content":[{"type":"text","text":"busy"}]}`), nil
	}
	for range 2 {
		if _, err := f.do(frame.Tool, "crm__search", `{"input":{"q":"a"}}`); err == nil {
			t.Error("no error")
		}
	}
	f.servers.answer = good
	f.tool("crm__search", `{"q":"a"}`)
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return nil, &mcpclient.CallError{Server: "crm", Kind: mcpclient.KindTimeout, Sent: true}
	}
	if _, err := f.do(frame.Tool, "crm__create_note", `{"input":{}}`); err == nil || err.Kind != frame.KindInDoubt {
		t.Errorf("got %v", err)
	}
	f.servers.answer = good
	f.tool("crm__search", `{"q":"a"}`)
	if f.asked() != 5 || len(f.kept) > 0 {
		t.Errorf("%d calls, kept %v", f.asked(), f.kept)
	}
	f.tool("crm__search", `{"q":"a"}`)
	cache.Store = func() (answers.Store, error) { return nil, errors.New("the store is away") }
	if _, err := f.do(frame.Tool, "crm__create_note", `{"input":{}}`); err == nil || !strings.Contains(err.Message, "the store is away") || f.asked() != 5 {
		t.Errorf("got %v after %d calls", err, f.asked())
	}
	f.tool("crm__search", `{"q":"a"}`)
	if f.asked() != 6 {
		t.Errorf("without the store %d calls were made", f.asked())
	}
}

// TestKeptDuringWrite: an answer that was read while a write was in progress is not given after it, although the write began before.
func TestKeptDuringWrite(t *testing.T) {
	t.Parallel()
	f := setup(t)
	cache := f.keeping(t, filepath.Join(t.TempDir(), "harness.db"))
	good := f.servers.answer
	f.servers.answer = func(ctx context.Context, server, name string, args json.RawMessage) (*mcpclient.Result, error) {
		if name == "create_note" { // another process reads before the server has done the write
			tool, err := f.catalog.Resolve("crm__search")
			if err != nil {
				t.Error(err)
				return good(ctx, server, name, args)
			}
			a, err := cache.Find(ctx, "ann", answers.Tool{Server: "crm", Name: "search", Definition: tool.Digest()}, json.RawMessage(`{"q":"a"}`), time.Minute)
			if err != nil || a.Result != nil {
				t.Errorf("found %s, %v", a.Result, err)
			}
			if err := cache.Keep(ctx, a, json.RawMessage(`{"content":[{"type":"text","text":"old"}]}`)); err != nil {
				t.Error(err)
			}
		}
		return good(ctx, server, name, args)
	}
	f.tool("crm__create_note", `{}`)
	if got := f.tool("crm__search", `{"q":"a"}`); strings.Contains(got, "old") || f.asked() != 2 {
		t.Errorf("got %s", got)
	}
}
