package wiring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/journal"
)

// inWriteVar makes this binary execute TestKilledInWrite, the process that is killed. Its value is the URL of the server to which the process writes.
const inWriteVar = "HARNESS_TEST_KILLED_IN_WRITE"

// TestKilledInWrite is the process that is killed. It does nothing unless killedInWrite starts it.
func TestKilledInWrite(t *testing.T) {
	url := os.Getenv(inWriteVar)
	if url == "" {
		return
	}
	f := open(t, os.Getenv(inWriteVar+"_DIR"), nil, &config.MCPServer{Name: "up", URL: url, StartupTimeout: patience, Timeout: patience})
	_, err := f.Runs().Execute(t.Context(), code(`try { return await tools.up.send({ to: 'ann@example.com' }) } catch (e) { return e.name }`))
	fmt.Println("survived", err)
}

// killedInWrite starts a run, and kills its process when the server has received the write. It returns the directory of the store.
func killedInWrite(t *testing.T, u *upstream) (dir string) {
	t.Helper()
	dir = t.TempDir()
	life, kill := context.WithCancel(t.Context())
	defer kill()
	cmd := exec.CommandContext(life, self(t), "-test.run=^TestKilledInWrite$")
	storeURL(t, dir) // The process reads the URL from the directory.
	cmd.Env = append(os.Environ(), inWriteVar+"="+u.web.URL, inWriteVar+"_DIR="+dir)
	u.mu.Lock() // The lock is needed, because another process calls the server.
	u.on = func(ctx context.Context, _, _ string, _ json.RawMessage) (string, error) {
		kill()
		<-ctx.Done() // The server does not answer.
		return "", ctx.Err()
	}
	u.mu.Unlock()
	if output, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("it was not killed: %s", output)
	}
	if calls := u.called(); len(calls) != 1 {
		t.Fatalf("the server got %v", calls)
	}
	return dir
}

// Rule 8, settled: a write whose process died after it was sent is in doubt once its run has ended, whether the run was resumed or abandoned. Any process can
// settle it once. It stays settled after a restart, and the journal can be replayed as before.
func TestRuleInDoubtSettled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fixture, id string) error{
		"resumed":  func(f *fixture, id string) error { _, err := f.Runs().Resume(t.Context(), id, nil); return err },
		"given up": func(f *fixture, _ string) error { return f.Runs().EndOrphans(t.Context(), time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "up")
			dir := killedInWrite(t, u)
			f, other := open(t, dir, nil, u.entry), open(t, dir, nil, u.entry)
			inDoubt := func(f *fixture) (all []string) {
				t.Helper()
				found, _, err := f.Runs().Doubts(t.Context(), auth.Local(), journal.DoubtFilter{})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range found {
					all = append(all, fmt.Sprint(d.N, " ", d.Name, " ", string(d.Arguments)))
				}
				return all
			}
			runs, _, err := f.Runs().List(t.Context(), auth.Local(), journal.Filter{})
			if err != nil || len(runs) != 1 {
				t.Fatalf("the runs are %+v, %v", runs, err)
			}
			id := runs[0].ID
			settle := func(f *fixture, verdict journal.Verdict) error {
				_, err := f.Runs().Settle(t.Context(), auth.Local(), id, 1, verdict, "")
				return err
			}
			if got := inDoubt(f); got != nil {
				t.Errorf("in doubt while the run can be resumed: %v", got)
			}
			if err := settle(f, journal.Done); !errors.Is(err, journal.ErrNoDoubt) {
				t.Errorf("settled while the run can be resumed: %v", err)
			}
			if err := end(f, id); err != nil {
				t.Fatal(err)
			}
			want := []string{`1 up__send {"to":"pii_1e@d1.pii.invalid"}`}
			for _, f := range []*fixture{f, other} {
				if got := inDoubt(f); !slices.Equal(got, want) {
					t.Errorf("in doubt: %v, want %v", got, want)
				}
			}
			before := f.journalOf(id)
			if err := settle(other, journal.NotDone); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, nil, u.entry)
			for _, f := range []*fixture{f, other, again} {
				if got := inDoubt(f); got != nil {
					t.Errorf("in doubt after the settlement: %v", got)
				}
				if err := settle(f, journal.NotDone); err != nil {
					t.Errorf("settled again: %v", err)
				}
				if err := settle(f, journal.Done); !errors.Is(err, journal.ErrSettled) {
					t.Errorf("settled with another verdict: %v", err)
				}
			}
			if after := again.journalOf(id); len(after) != len(before) {
				t.Errorf("the journal had %d records, and has %d", len(before), len(after))
			}
			again.replayed(before, "")
			if calls := u.called(); len(calls) != 1 {
				t.Errorf("the server got %v", calls)
			}
		})
	}
}
