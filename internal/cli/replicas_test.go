package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/testing/postgrestest"
)

// piiKeys are two keys that encrypt personal data.
var piiKeys = [2]string{"q7bN0m0c5nGxj1q0hY3o8uW2l5r6t9v4s1d8f0g7h3k=", "Zk3vP8xT1yR6wQ9sL2nM5bV7cX4zA0dF8gH1jK6uE3o="}

// replicas returns n fixtures with different directories. Their harnesses share a store and the outbox of the MCP server mailer.
func replicas(t *testing.T, n int, settings string) (all []*fixture) {
	t.Helper()
	store := postgrestest.Start(t, postgrestest.Fast...).Schema(t)
	outbox := t.TempDir()
	for range n {
		f := setup(t)
		f.environ = append(f.environ, "HARNESS_PII_KEY="+piiKeys[0])
		f.write("harness.yaml", settings+"\nstore: {url: "+quoted(store)+"}\npolicy: [{tools: mailer__send, action: ask}]\nmcpServers:\n  mailer: {command: "+quoted(self(t))+
			", args: [__demo-server, mailer, "+quoted(outbox)+"]}\n")
		f.run("trust", f.dir).want(0)
		all = append(all, f)
	}
	return all
}

// bearer creates a key of an admin. It returns the header of requests with this key, and the id of the key.
func (f *fixture) bearer() (header []string, id string) {
	f.t.Helper()
	var made struct{ ID, Key string }
	f.run("keys", "create", "--role", "admin", "--user", "local", "--json").want(0).value(&made)
	return []string{"Authorization", "Bearer " + made.Key}, made.ID
}

// A decision at one server applies to a run of another server with a different state directory.
func TestReplicasApproval(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, "")
	key, _ := all[0].bearer()
	a, b := all[0].serve(), all[1].serve()
	status, text := a.do("POST", "/v1/runs", `{"userId":"local","code":`+quoted(sendMail("one"))+`}`, key...)
	var out run.Outcome
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.Approval == nil {
		t.Fatalf("%d %s", status, text)
	}
	if code := a.stop(); code != 0 { // the run continues at the other server
		t.Fatalf("exit code %d: %s", code, a.log)
	}
	if status, text := b.do("POST", "/v1/approvals/"+out.Approval.ID, `{"decision":"approve"}`, key...); status != http.StatusOK {
		t.Fatalf("approve: %d %s", status, text)
	}
	var ended run.Outcome
	for deadline := time.Now().Add(time.Minute); ended.Status != run.Succeeded; {
		if _, text := b.do("GET", "/v1/runs/"+out.RunID, "", key...); json.Unmarshal([]byte(text), &ended) != nil || time.Now().After(deadline) {
			t.Fatalf("the run does not end: %s\n%s", text, b.log)
		}
		var requests struct{ Approvals []approval.Request }
		if _, text := b.do("GET", "/v1/approvals?status=waiting", "", key...); json.Unmarshal([]byte(text), &requests) != nil || len(requests.Approvals) > 0 {
			t.Fatalf("it is asked again: %s", text)
		}
	}
}

// A server whose key of personal data differs from that of the other servers does not start. It starts if there are no other servers.
func TestReplicasOtherKey(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, "")
	key, _ := all[0].bearer()
	a := all[0].serve()
	ask := func(s *server) {
		t.Helper()
		var out run.Outcome
		if _, text := s.do("POST", "/v1/runs", `{"userId":"local","code":`+quoted(sendMail("one"))+`}`, key...); json.Unmarshal([]byte(text), &out) != nil || out.Approval == nil {
			t.Errorf("no one is asked: %s", text)
		}
	}
	ask(a)
	other := all[1]
	other.environ[len(other.environ)-1] = "HARNESS_PII_KEY=" + piiKeys[1]
	if r := other.run("serve", "--listen", "127.0.0.1:0").want(3); !strings.Contains(r.stderr, "another key of personal data than process ") {
		t.Errorf("the error is %s", r.stderr)
	}
	a.stop()
	ask(other.serve())
}

// All servers count the requests of a caller against the same rate limit.
func TestReplicasRateLimit(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, "server: {rateLimit: {max: 6, window: 1h}}")
	key, _ := all[0].bearer()
	a, b := all[0].serve(), all[1].serve()
	var did, refused atomic.Int64
	var requests sync.WaitGroup
	for i := range 12 {
		requests.Go(func() {
			switch status, text := []*server{a, b}[i%2].do("POST", "/v1/runs", `{"userId":"local","code":"return 1"}`, key...); status {
			case http.StatusOK:
				did.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("%d %s", status, text)
			}
		})
	}
	requests.Wait()
	if did.Load() != 6 || refused.Load() != 6 {
		t.Errorf("%d did work and %d were refused, want 6 and 6", did.Load(), refused.Load())
	}
}

// browse sends a request as a browser does, with a cookie. The host is localhost:3000 for every server, as behind a load balancer. browse returns the answer
// and its text.
func (s *server) browse(method, path, cookie string, form url.Values) (page, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = "localhost:3000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page{answer.StatusCode, answer.Header}, string(text)
}

// page is the answer to a browser, without its text.
type page struct {
	StatusCode int
	Header     http.Header
}

var csrf = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// A session of the dashboard is valid at all servers. A logout ends it at all servers, as does the revocation of its key. All servers refuse a revoked key.
func TestReplicasRevocation(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, "")
	key, id := all[0].bearer()
	boss, _ := all[0].bearer()
	a, b := all[0].serve(), all[1].serve()
	login := func() string {
		t.Helper()
		answer, text := a.browse("POST", "/login", "", url.Values{"key": {strings.TrimPrefix(key[1], "Bearer ")}})
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("login: %d %s", answer.StatusCode, text)
		}
		cookie, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
		for _, s := range []*server{a, b} {
			if answer, text := s.browse("GET", "/runs", cookie, nil); answer.StatusCode != http.StatusOK {
				t.Fatalf("a page after the login: %d %s", answer.StatusCode, text)
			}
		}
		return cookie
	}
	ended := func(what, cookie string) {
		t.Helper()
		for i, s := range []*server{a, b} {
			if answer, _ := s.browse("GET", "/runs", cookie, nil); answer.StatusCode != http.StatusSeeOther {
				t.Errorf("server %d shows a page to a session after %s: %d", i, what, answer.StatusCode)
			}
		}
	}
	first, second := login(), login()
	_, text := b.browse("GET", "/runs", first, nil)
	if answer, text := b.browse("POST", "/logout", first, url.Values{"csrf": {csrf.FindStringSubmatch(text)[1]}}); answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("logout: %d %s", answer.StatusCode, text)
	}
	ended("a logout", first)
	if answer, _ := a.browse("GET", "/runs", second, nil); answer.StatusCode != http.StatusOK {
		t.Errorf("another session after the logout: %d", answer.StatusCode)
	}

	ticket, text := b.do("POST", "/v1/tickets", "", key...)
	if ticket != http.StatusCreated {
		t.Fatalf("ticket: %d %s", ticket, text)
	}
	if status, text := a.do("DELETE", "/v1/keys/"+id, "", boss...); status != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", status, text)
	}
	if status, text := b.do("GET", "/v1/runs", "", key...); status != http.StatusUnauthorized {
		t.Errorf("the other server after the key was revoked: %d %s", status, text)
	}
	ended("the key was revoked", second)
}
