package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
)

// Missing, revoked, expired and invalid credentials are refused, and answers do not repeat them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	idp := newIssuer(t)
	w := setup(t, setting{keys: true, issuer: idp.issuer(t)})
	revoked, value, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	w.as(value, "GET", "/v1/tasks", nil).want(http.StatusOK)
	if err := w.keys.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	// The audit log names the first refusals of an address one by one and only counts the others, so the refusal of the revoked key comes first.
	w.as(value, "GET", "/v1/tasks", nil).want(http.StatusUnauthorized)
	_, expired, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice", TTL: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	good := w.key("alice")
	other := newIssuer(t)
	for name, header := range map[string]string{
		"none": "", "empty": "Bearer ", "another scheme": "Basic " + good, "revoked": "Bearer " + value, "expired": "Bearer " + expired,
		"mistyped": "Bearer " + good[:len(good)-1] + "!", "unknown": "Bearer hk_" + strings.Repeat("0", 38), "a token of nobody": "Bearer abc.def.ghi",
		"a token of another issuer": "Bearer " + other.token(t, map[string]any{"iss": idp.url}),
		"a token of yesterday":      "Bearer " + idp.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"a token for another":       "Bearer " + idp.token(t, map[string]any{"aud": "other"}),
	} {
		r := w.do("GET", "/v1/tasks", nil, "Authorization", header).want(http.StatusUnauthorized)
		if r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", name)
		}
		if parts := strings.Fields(header); len(parts) == 2 && strings.Contains(r.body, parts[1]) {
			t.Errorf("%s: the answer repeats it: %s", name, r.body)
		}
	}
	// A token acts for its subject, with the roles in its claims.
	alice := idp.token(t, nil)
	w.as(alice, "POST", "/v1/runs", map[string]string{"code": "return 1"}).want(http.StatusOK)
	w.as(alice, "POST", "/v1/runs", map[string]string{"code": "return 1", "userId": "bob"}).want(http.StatusForbidden)
	w.as(alice, "GET", "/metrics", nil).want(http.StatusForbidden)
	w.as(idp.token(t, map[string]any{"roles": []string{"admin"}}), "GET", "/metrics", nil).want(http.StatusOK)
	w.as(idp.token(t, map[string]any{"roles": []string{"gardener"}}), "GET", "/v1/tasks", nil).want(http.StatusForbidden)
	var runs struct{ Runs []struct{ UserID string } }
	if w.as(alice, "GET", "/v1/runs", nil).want(http.StatusOK).json(&runs); len(runs.Runs) != 1 || runs.Runs[0].UserID != "alice" {
		t.Errorf("got %+v", runs)
	}
	log := w.log.String()
	if !strings.Contains(log, `"eventType":"auth_failure"`) || !strings.Contains(log, revoked.ID) {
		t.Error("the audit does not tell of failures, or not whose key it was")
	}
	for _, secret := range []string{value, expired, good, alice} {
		if strings.Contains(log, secret) {
			t.Error("a credential is in the log")
		}
	}
}

// Only a capability of a run is accepted by /internal/mcp-call. The call is made in the name of the run's user.
func TestMCPCall(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	minter, key, err := w.keys.Create(t.Context(), auth.NewKey{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	alice := w.key("alice")
	issue := func(key string) (run, token string) {
		t.Helper()
		run = w.as(key, "POST", "/v1/runs", map[string]string{"code": "return 1", "sessionId": "s1"}).want(http.StatusOK).field("runId")
		var made struct {
			AuthToken string
			ExpiresAt time.Time
		}
		w.as(key, "POST", "/v1/runs/"+run+"/capability", nil).want(http.StatusCreated).json(&made)
		if left := time.Until(made.ExpiresAt); left < 58*time.Minute || left > time.Hour {
			t.Errorf("it expires in %s", left)
		}
		return run, made.AuthToken
	}
	call := func(token, tool string, input any) *reply {
		return w.do("POST", "/internal/mcp-call", map[string]any{"authToken": token, "toolName": tool, "input": input})
	}
	run, token := issue(alice)
	w.as(w.key("bob"), "POST", "/v1/runs/"+run+"/capability", nil).want(http.StatusNotFound)
	r := call(token, "bad__echo", map[string]any{"alpha": 1, "quote": "'\"`${x}\n\u2028"}).want(http.StatusOK)
	var got map[string]any
	if r.json(&got); got["alpha"] != 1.0 || got["quote"] != "'\"`${x}\n\u2028" {
		t.Errorf("got %s", r.body)
	}
	// As in the guides of the original system, the token is a bearer token and the input is called params.
	w.do("POST", "/internal/mcp-call", map[string]any{"toolName": "bad__echo", "params": map[string]any{"alpha": 2}}, "Authorization", "Bearer "+token).
		want(http.StatusOK).json(&got)
	if got["alpha"] != 2.0 {
		t.Errorf("got %v", got)
	}
	var runs struct {
		Runs []struct{ UserID, SessionID string }
	}
	w.as(alice, "GET", "/v1/runs", nil).want(http.StatusOK).json(&runs)
	if len(runs.Runs) != 3 || runs.Runs[0].SessionID != "s1" {
		t.Errorf("the calls are recorded as %+v", runs)
	}
	if r := call(token, "bad__error", map[string]any{}).want(http.StatusInternalServerError); !strings.Contains(r.field("error"), "no such customer") {
		t.Errorf("got %s", r.body)
	}
	call(token, "bad__none", map[string]any{}).want(http.StatusNotFound)
	if r := call(token, "bad__echo", map[string]any{"alpha": "no number"}).want(http.StatusBadRequest); !strings.Contains(r.field("error"), "alpha") {
		t.Errorf("invalid input: %s", r.body)
	}
	if r := call(token, "bad__echo", map[string]any{"zeta": "ask"}).want(http.StatusConflict); !strings.Contains(r.field("error"), "a person has to decide") {
		t.Errorf("a call that waits for an approval: %s", r.body)
	}
	for _, bad := range []any{"", "nonsense", map[string]any{}, map[string]any{"authToken": token}, map[string]any{"toolName": "bad__echo"}, map[string]any{"authToken": 1, "toolName": "x"}} {
		if r := w.do("POST", "/internal/mcp-call", bad).want(http.StatusBadRequest); r.field("error") != "authToken and toolName are required" {
			t.Errorf("%v: %s", bad, r.body)
		}
	}
	if journal := w.as(alice, "GET", "/v1/runs/"+run+"/journal", nil).want(http.StatusOK); strings.Contains(journal.body, "bad__echo") {
		t.Errorf("the calls are in the journal of the run: %s", journal.body)
	}
	_, ofRevoked := issue(key)
	if err := w.keys.Revoke(t.Context(), minter.ID); err != nil {
		t.Fatal(err)
	}
	others, err := auth.NewCapabilities(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	forged, _, _ := others.Issue(auth.Capability{RunID: run, User: "alice"})
	old, _, _ := w.caps.Issue(auth.Capability{RunID: run, User: "alice", Expires: time.Now().Add(-time.Second)})
	foreign, _, _ := w.caps.Issue(auth.Capability{RunID: run, User: "bob"})
	unknown, _, _ := w.caps.Issue(auth.Capability{RunID: "run_gone", User: "alice"})
	for name, token := range map[string]string{
		"of a revoked key": ofRevoked, "of another user's run": foreign, "of no run": unknown, "forged": forged, "expired": old, "changed": token[:len(token)-2] + "xx", "a key": w.key("alice", auth.Admin), "the original's": "session_alice_1700000000000",
	} {
		if r := call(token, "bad__echo", map[string]any{}).want(http.StatusForbidden); r.field("error") != "Invalid auth token" {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	if n := strings.Count(w.log.String(), `"eventType":"auth_failure"`); n != 8 {
		t.Errorf("the audit tells of %d failures", n)
	}
}
