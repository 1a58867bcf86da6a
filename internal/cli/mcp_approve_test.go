package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestGatewayPending checks that a client learns what its run waits for, and can fetch the result after the decision.
func TestGatewayPending(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	g := f.gateway(nil)
	var out gatewayRun
	text, failed := g.call("execute_code", map[string]any{"code": sendMail("one")}, &out)
	if failed || out.Status != "waiting_approval" || out.Approval == nil || strings.Contains(text, "harness ") || !strings.Contains(text, "A person decides") || !strings.Contains(text, `mailer__send {"body":"x"`) {
		t.Fatalf("got %+v\n%s", out, text)
	}
	var same gatewayRun
	if g.call("execute_code", map[string]any{"runId": out.RunID}, &same); same.Status != "waiting_approval" || f.mails() != 0 {
		t.Errorf("before the decision it is %+v, and %d mails are sent", same, f.mails())
	}
	f.run("approvals", "approve", out.Approval.ID).want(0) // this other process resumes the run
	if text, _ := g.call("execute_code", map[string]any{"runId": out.RunID}, &same); same.Status != "succeeded" || string(same.Output) != `"sent"` || f.mails() != 1 {
		t.Errorf("fetched %+v, and %d mails are sent\n%s", same, f.mails(), text)
	}
	if _, failed := g.call("execute_code", map[string]any{"runId": "run_none"}, nil); !failed {
		t.Error("an unknown run is no error")
	}
}

// TestGatewayPendingAgain checks that repeating a waiting program asks a person only once, that both forms of the result say what to do, and that a repetition
// after the decision gets the result. The same program after that is a new run.
func TestGatewayPendingAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	send := map[string]any{"code": sendMail("one")}
	g := f.gateway(nil)
	var first, again, other gatewayRun
	g.call("execute_code", send, &first)
	if first.Approval == nil || !strings.Contains(first.Approval.Next, first.RunID) || !strings.Contains(first.Approval.Next, "Do not send it again") {
		t.Fatalf("the structured content of what waits is %+v", first)
	}
	for range 20 {
		if g.call("execute_code", send, &again); again.RunID != first.RunID || again.Approval == nil || again.Approval.ID != first.Approval.ID {
			t.Fatalf("the same program is %+v", again)
		}
	}
	if g.call("execute_code", map[string]any{"code": sendMail("two")}, &other); other.RunID == first.RunID {
		t.Errorf("another program is the same run")
	}
	if g.call("execute_code", map[string]any{"code": sendMail("one"), "sessionId": "another"}, &other); other.RunID == first.RunID {
		t.Errorf("a program of another session is the same run")
	}
	f.run("approvals", "approve", first.Approval.ID).want(0)
	if g.call("execute_code", send, &again); again.RunID != first.RunID || again.Status != "succeeded" || f.mails() != 1 {
		t.Errorf("once it is decided, the same program is %+v, and %d mails are sent", again, f.mails())
	}
	if g.call("execute_code", send, &again); again.RunID == first.RunID || again.Status != "waiting_approval" || f.mails() != 1 {
		t.Errorf("sent once more, it is %+v, and %d mails are sent", again, f.mails())
	}
}

// TestGatewayDirectPending checks that in the mode direct, repeating a call after the decision returns its result.
func TestGatewayDirectPending(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	g := f.gateway(nil, "--mode", "direct")
	mail := map[string]any{"to": "ann@example.com", "subject": "one", "body": "x"}
	first, failed := g.call("send", mail, nil)
	if !failed || !strings.Contains(first, "make the same call again") {
		t.Fatalf("what waits is %s", first)
	}
	if again, _ := g.call("send", mail, nil); again != first {
		t.Errorf("the same call is %s", again)
	}
	var waiting struct{ Approvals []struct{ ID string } }
	if err := json.Unmarshal([]byte(f.run("approvals", "list", "--json").want(0).stdout), &waiting); err != nil || len(waiting.Approvals) != 1 {
		t.Fatalf("a person is asked about %+v, %v", waiting, err)
	}
	f.run("approvals", "approve", waiting.Approvals[0].ID).want(0)
	if text, failed := g.call("mailer__send", mail, nil); failed || f.mails() != 1 {
		t.Errorf("once it is decided, the call under its full name gives %s, and %d mails are sent", text, f.mails())
	}
}

// decide returns a handler that answers an elicitation like a user who opens the page.
func decide(t *testing.T, decision string) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		get, err := http.Get(r.Params.URL)
		if err != nil {
			return nil, err
		}
		defer get.Body.Close()
		if text, _ := io.ReadAll(get.Body); !strings.Contains(string(text), "mailer__send") || !strings.Contains(string(text), "pii_1e@d1.pii.invalid is $.to and is replaced by <code>ann@example.com</code>") {
			t.Errorf("the page shows %s", text)
		}
		posted, err := http.PostForm(r.Params.URL, url.Values{"decision": {decision}})
		if err != nil {
			return nil, err
		}
		posted.Body.Close()
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
}

// TestGatewayAsks lets the client's user decide on a page, or in a form if forms are configured.
func TestGatewayAsks(t *testing.T) {
	t.Parallel()
	form := func(answer string) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": answer}}, nil
		}
	}
	byURL := &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
	byForm := &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}
	for _, c := range []struct {
		name   string
		can    *mcp.ElicitationCapabilities
		answer func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)
		args   []string
		status string
		mails  int
	}{
		{"page, approved", byURL, decide(t, "approve"), nil, "succeeded", 1},
		{"page, denied", byURL, decide(t, "deny"), nil, "failed", 0},
		{"page, declined", byURL, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}, nil, "waiting_approval", 0},
		{"form, not configured", byForm, form("approve"), nil, "waiting_approval", 0},
		{"form, approved", byForm, form("approve"), []string{"--forms"}, "succeeded", 1},
		{"form, denied", byForm, form("deny"), []string{"--forms"}, "failed", 0},
		{"form, declined", byForm, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}, []string{"--forms"}, "failed", 0},
		{"form, closed", byForm, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}, []string{"--forms"}, "waiting_approval", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.asking()
			g := f.gateway(&mcp.ClientOptions{ElicitationHandler: c.answer, Capabilities: &mcp.ClientCapabilities{Elicitation: c.can}}, c.args...)
			var out gatewayRun
			text, _ := g.call("execute_code", map[string]any{"code": sendMail("one")}, &out)
			if out.Status != c.status || f.mails() != c.mails {
				t.Errorf("the run is %+v, and %d mails are sent\n%s\n%s", out, f.mails(), text, g.stderr)
			}
		})
	}
}

// TestGatewayDecidedLater checks that a run resumes if its request is decided on the page after the client has given up.
func TestGatewayDecidedLater(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	var page string
	g := f.gateway(&mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			page = r.Params.URL
			return &mcp.ElicitResult{Action: "cancel"}, nil
		},
	})
	var out gatewayRun
	if g.call("execute_code", map[string]any{"code": sendMail("one")}, &out); out.Status != "waiting_approval" {
		t.Fatalf("the run is %+v", out)
	}
	posted, err := http.PostForm(page, url.Values{"decision": {"approve"}})
	if err != nil {
		t.Fatal(err)
	}
	posted.Body.Close()
	for deadline := time.Now().Add(2 * time.Minute); f.mails() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody goes on with the run\n%s", g.stderr)
		}
	}
}

// TestGatewayAsksOften checks two runs that wait at the same time: each resumes after its own decision.
func TestGatewayAsksOften(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	pages := make(chan string)
	g := f.gateway(&mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			pages <- r.Params.URL
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	ended := make(chan string, 2)
	for _, subject := range []string{"one", "two"} {
		go func() {
			r, err := g.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{"code": sendMail(subject)}})
			if err != nil || r.IsError {
				ended <- fmt.Sprint(r, err)
				return
			}
			ended <- ""
		}()
	}
	for _, page := range []string{<-pages, <-pages} {
		posted, err := http.PostForm(page, url.Values{"decision": {"approve"}})
		if err != nil {
			t.Fatal(err)
		}
		posted.Body.Close()
		if problem := <-ended; problem != "" {
			t.Errorf("a run ends with %s", problem)
		}
	}
	if f.mails() != 2 {
		t.Errorf("%d mails are sent", f.mails())
	}
}
