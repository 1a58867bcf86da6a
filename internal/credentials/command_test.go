package credentials_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/credentials"
)

// command returns a source whose program is a script for sh, and the path of a file to which the script can write.
func command(t *testing.T, script string) (*credentials.Command, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts are for sh")
	}
	dir := t.TempDir()
	return &credentials.Command{
		Server: "crm", Name: "/bin/sh", Args: []string{"-c", script}, Environ: append(os.Environ(), "LOG="+filepath.Join(dir, "log")),
		HeaderIn: "Authorization", CacheFor: time.Minute, Now: time.Now,
	}, filepath.Join(dir, "log")
}

// TestCommand checks that a printed credential is used again, and that the command runs again after the server has refused the credential.
func TestCommand(t *testing.T) {
	t.Parallel()
	c, log := command(t, `echo x >> "$LOG"; echo "secret-$(wc -l < "$LOG" | tr -d ' ')"`)
	runs := func() int {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "x")
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, value, err := c.Header(t.Context(), "ann"); err != nil || value != "Bearer secret-1" {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
	all.Wait()
	if runs() != 1 {
		t.Errorf("the command ran %d times", runs())
	}
	if err := c.Refused(t.Context(), "ann", "Bearer secret-1", false, http.StatusUnauthorized, nil); err != nil {
		t.Error(err)
	}
	if _, value, err := c.Header(t.Context(), "ann"); err != nil || value != "Bearer secret-2" || runs() != 2 {
		t.Errorf("%q, %v, %d runs", value, err, runs())
	}
	if err := c.Refused(t.Context(), "ann", "Bearer secret-2", true, http.StatusUnauthorized, nil); err == nil || strings.Contains(err.Error(), "secret-") {
		t.Errorf("refused again: %v", err)
	}
}

// TestCommandExpiry checks that a credential is used until the time that the command prints.
func TestCommandExpiry(t *testing.T) {
	t.Parallel()
	c, log := command(t, `echo x >> "$LOG"; echo '{"token": "secret-t", "expiresAt": "2026-01-02T15:04:05Z"}'`)
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	c.Now = func() time.Time { return now }
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			now = now.Add(5 * time.Minute)
		}
		if _, value, err := c.Header(t.Context(), ""); err != nil || value != "Bearer secret-t" {
			t.Errorf("%q, %v", value, err)
		}
		if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "x") != want {
			t.Errorf("after %d: %q, %v", i, text, err)
		}
	}
}

// TestBadCommand checks that errors name the problem and contain nothing that the command prints.
func TestBadCommand(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo secret-x; echo secret-y >&2; exit 3": "exit status 3",
		"true":                              "no credential",
		"printf 'secret-a\nsecret-b\n'":     "no credential",
		`echo '{"token": 5, "secret-": 1}'`: "prints JSON",
		"while :; do echo secret-secret-secret-secret; done": "more than",
	} {
		c, _ := command(t, script)
		if _, _, err := c.Header(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-") {
			t.Errorf("%s: %v", script, err)
		}
	}
	c, _ := command(t, "")
	c.Name = filepath.Join(t.TempDir(), "none")
	if _, _, err := c.Header(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "does not start") {
		t.Errorf("no program: %v", err)
	}
	c, _ = command(t, "sleep 1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.Header(ctx, ""); err == nil {
		t.Error("a caller waits for a slow command beyond its own end")
	}
}

// TestKeys checks that each user gets their own key, or the key for all other users.
func TestKeys(t *testing.T) {
	t.Parallel()
	k := &credentials.Keys{Server: "crm", HeaderIn: "X-Api-Key", ByUser: map[string]string{"ann": "secret-a", "*": "secret-b"}}
	for user, want := range map[string]string{"ann": "secret-a", "ben": "secret-b"} {
		if name, value, err := k.Header(t.Context(), user); name != "X-Api-Key" || value != want || err != nil {
			t.Errorf("%s: %s: %s, %v", user, name, value, err)
		}
	}
	if err := k.Refused(t.Context(), "ann", "secret-a", false, http.StatusUnauthorized, nil); err == nil || strings.Contains(err.Error(), "secret-") {
		t.Errorf("refused: %v", err)
	}
	delete(k.ByUser, "*")
	if _, _, err := k.Header(t.Context(), "ben"); err == nil || !strings.Contains(err.Error(), "mcpServers.crm.auth.keys") {
		t.Errorf("no key: %v", err)
	}
}
