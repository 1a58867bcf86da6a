package mcpclient

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOffers(t *testing.T) {
	for _, c := range []struct {
		enabled, disabled, tool string
		want                    bool
	}{
		{"", "", "search", true},
		{"search", "", "search", true},
		{"search", "", "search_all", false},
		{"search*", "", "search_all", true},
		{"*_all", "", "search_all", true},
		{"s*a*l", "", "search_all", true},
		{"s*x*l", "", "search_all", false},
		{"ab*ba", "", "aba", false},
		{"", "delete_*", "delete_page", false},
		{"*", "delete_*", "delete_page", false},
		{"*", "delete_*", "get_page", true},
	} {
		cfg := Config{EnabledTools: strings.Fields(c.enabled), DisabledTools: strings.Fields(c.disabled)}
		if got := cfg.offers(c.tool); got != c.want {
			t.Errorf("enabled %q, disabled %q: %s is offered: %t, want %t", c.enabled, c.disabled, c.tool, got, c.want)
		}
	}
}

// TestUnusable: a server whose configuration has an error is listed with the reason and never started.
func TestUnusable(t *testing.T) {
	m := NewManager(Options{})
	defer m.Close(t.Context())
	if err := m.Add(Config{Name: "broken", Err: errors.New("variable TOKEN is not set")}); err != nil {
		t.Fatal(err)
	}
	m.EnsureTools(t.Context(), "")
	if s := m.Servers()[0]; s.State != StateFailed || !strings.Contains(s.Reason, "TOKEN") {
		t.Errorf("status %+v", s)
	}
	if _, err := m.Connect(t.Context(), "", "broken"); err == nil || !strings.Contains(err.Error(), "TOKEN") {
		t.Errorf("connect: %v", err)
	}
}

// TestSubscriptionOf: a subscription covers its resource and the resources below it.
func TestSubscriptionOf(t *testing.T) {
	for _, c := range []struct {
		subscribed, changed string
		want                bool
	}{
		{"test://notes", "test://notes", true},
		{"test://notes", "test://notes/1", true},
		{"test://notes/", "test://notes/1", true},
		{"test://notes", "test://notes2", false},
		{"test://notes/1", "test://notes", false},
		{"test://notes", "", false},
	} {
		if got := (&subscription{uri: c.subscribed}).of(c.changed); got != c.want {
			t.Errorf("a subscription to %s gets the change of %q: %t, want %t", c.subscribed, c.changed, got, c.want)
		}
	}
}

// TestTurnsOfHangingStarts: a start that hangs counts as a start under way for maxTurn only.
func TestTurnsOfHangingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{cfg: Config{Command: "x"}, life: t.Context()}
		turns := make(chan struct{}, 1)
		began := time.Now()
		first, err := s.turn(turns)
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.turn(turns)
		if err != nil || time.Since(began) != maxTurn {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		first()
		if len(turns) != 1 {
			t.Error("the end of the first start ends the turn of the second")
		}
		second()
		if len(turns) != 0 {
			t.Error("a turn is left")
		}
	})
}
