package pii_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii"
)

// words hides one word of one session.
type words struct{ err error }

func (w words) Hide(_ context.Context, _ pii.Scope, text string) (string, error) {
	return strings.ReplaceAll(text, "grace@example.com", "[EMAIL_1]"), w.err
}

func (w words) Restore(_ context.Context, s pii.Scope, text string) (string, error) {
	if s != (pii.Scope{User: "u", Session: "s"}) {
		return text, w.err
	}
	return strings.ReplaceAll(text, "[EMAIL_1]", "grace@example.com"), w.err
}

func TestJSON(t *testing.T) {
	t.Parallel()
	s, other := pii.In(words{}, "u", "s"), pii.In(words{}, "u", "t")
	for plain, hidden := range map[string]string{
		`{"b":"to grace@example.com","a":[1.0,1e400,"x"]}`:              `{"b":"to [EMAIL_1]","a":[1.0,1e400,"x"]}`,
		`{"grace@example.com":{"grace@example.com":null}}`:              `{"[EMAIL_1]":{"[EMAIL_1]":null}}`,
		` [ "\"grace@example.com\"" , "\\" , "<grace@example.com>&" ] `: ` [ "\"[EMAIL_1]\"" , "\\" , "<[EMAIL_1]>&" ] `,
		`"grace@example.com"`: `"[EMAIL_1]"`,
		`{}`:                  `{}`,
		`12`:                  `12`,
		``:                    ``,
	} {
		got, err := s.HideJSON(t.Context(), json.RawMessage(plain))
		if err != nil || string(got) != hidden {
			t.Errorf("%s is hidden as %s, %v; want %s", plain, got, err, hidden)
		}
		if back, err := s.RestoreJSON(t.Context(), got); err != nil || string(back) != plain {
			t.Errorf("%s is restored as %s, %v; want %s", got, back, err, plain)
		}
		if again, err := s.HideJSON(t.Context(), got); err != nil || string(again) != hidden {
			t.Errorf("%s is hidden again as %s, %v", got, again, err)
		}
		if strange, err := other.RestoreJSON(t.Context(), got); err != nil || string(strange) != hidden {
			t.Errorf("another session restores %s as %s, %v", got, strange, err)
		}
	}
	// Escapes hide nothing from it, and what is no JSON is a text.
	for text, want := range map[string]string{
		`"\u0067race\u0040example.com"`:   `"[EMAIL_1]"`,
		`{"broken": grace@example.com`:    `{"broken": [EMAIL_1]`,
		`{"\ud800": "grace@example.com"}`: `{"\ud800": "[EMAIL_1]"}`,
	} {
		if got, err := s.HideJSON(t.Context(), json.RawMessage(text)); err != nil || string(got) != want {
			t.Errorf("%s is hidden as %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	fault := errors.New("the vault is closed")
	s := pii.In(words{fault}, "u", "s")
	for name, do := range map[string]func() (string, error){
		"Hide":    func() (string, error) { return s.Hide(t.Context(), "grace@example.com") },
		"Restore": func() (string, error) { return s.Restore(t.Context(), "x") },
		"HideJSON": func() (string, error) {
			raw, err := s.HideJSON(t.Context(), json.RawMessage(`["x"]`))
			return string(raw), err
		},
		"RestoreJSON": func() (string, error) {
			raw, err := s.RestoreJSON(t.Context(), json.RawMessage(`["x"]`))
			return string(raw), err
		},
	} {
		if got, err := do(); got != "" || !errors.Is(err, fault) {
			t.Errorf("%s gives %q, %v: a text that could not be filtered goes nowhere", name, got, err)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	if got := pii.Redact(words{})("to grace@example.com"); got != "to [EMAIL_1]" {
		t.Errorf("got %q", got)
	}
	if got := pii.Redact(words{errors.New("closed")})("to grace@example.com"); strings.Contains(got, "grace") {
		t.Errorf("got %q", got)
	}
	if pii.Redact(pii.None{}) != nil {
		t.Error("texts are read to find nothing in them")
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	for _, s := range []pii.Session{{}, pii.In(nil, "u", "s"), pii.In(pii.None{}, "u", "s")} {
		raw := json.RawMessage(`{"a":"[EMAIL_1] grace@example.com"}`)
		if got, err := s.HideJSON(t.Context(), raw); err != nil || &got[0] != &raw[0] {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := s.Restore(t.Context(), string(raw)); err != nil || got != string(raw) {
			t.Errorf("got %s, %v", got, err)
		}
	}
	text, err := pii.None{}.Restore(t.Context(), pii.Scope{}, "x")
	if hidden, err2 := (pii.None{}).Hide(t.Context(), pii.Scope{}, text); hidden != "x" || err != nil || err2 != nil {
		t.Errorf("%s, %v, %v", hidden, err, err2)
	}
}
