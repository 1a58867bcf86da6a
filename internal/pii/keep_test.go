package pii_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// forgetful is a vault that records the calls of Keep.
type forgetful struct {
	*pii.Memory
	kept []string
}

func (f *forgetful) Keep(_ context.Context, d time.Duration, sessions ...pii.Scope) error {
	for _, s := range sessions {
		f.kept = append(f.kept, fmt.Sprintf("%s %s %s", s.User, s.Session, d))
	}
	return nil
}

// A Keeper is told when work with a session is due, and that a session is in use although its tokens are in memory.
func TestKeep(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	v := &forgetful{Memory: pii.NewMemory(1)}
	d, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := pii.New(pii.Options{
		Detector: d, Types: d.Types(), Now: func() time.Time { return now },
		Vault: func() (pii.Vault, error) { return v, nil }, Keys: func() (*seal.Keys, error) { return keys() },
	}).In("u", "s")
	hide(t, s, crm, "grace@example.com")
	if len(v.kept) > 0 {
		t.Errorf("a session that was loaded is kept: %v", v.kept)
	}
	if err := s.Keep(t.Context(), now.Add(40*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(9 * time.Minute)
		if got, err := s.Restore(t.Context(), "[EMAIL_1]"); err != nil || got != "grace@example.com" {
			t.Errorf("restored %s, %v", got, err)
		}
	}
	if want := []string{"u s 1128h0m0s", "u s 0s"}; !slices.Equal(v.kept, want) {
		t.Errorf("kept %v, want %v", v.kept, want)
	}
	if err := (pii.Session{}).Keep(t.Context(), now); err != nil {
		t.Error(err)
	}
}
