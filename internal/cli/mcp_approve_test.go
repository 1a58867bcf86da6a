package cli_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestGatewayPending tells a client what its run waits for; the result is fetched once a person has decided.
func TestGatewayPending(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	g := f.gateway(nil)
	var out gatewayRun
	text, failed := g.call("execute_code", map[string]any{"code": sendMail("one")}, &out)
	if failed || out.Status != "waiting_approval" || out.Approval == nil || !strings.Contains(text, "harness approvals approve "+out.Approval.ID) || !strings.Contains(text, `mailer__send {"body":"x"`) {
		t.Fatalf("got %+v\n%s", out, text)
	}
	var same gatewayRun
	if g.call("execute_code", map[string]any{"runId": out.RunID}, &same); same.Status != "waiting_approval" || f.mails() != 0 {
		t.Errorf("before the decision it is %+v, and %d mails are sent", same, f.mails())
	}
	f.run("approvals", "approve", out.Approval.ID).want(0) // in another process, which goes on with the run
	if text, _ := g.call("execute_code", map[string]any{"runId": out.RunID}, &same); same.Status != "succeeded" || string(same.Output) != `"sent"` || f.mails() != 1 {
		t.Errorf("fetched %+v, and %d mails are sent\n%s", same, f.mails(), text)
	}
	if _, failed := g.call("execute_code", map[string]any{"runId": "run_none"}, nil); !failed {
		t.Error("an unknown run is no error")
	}
}

// decide answers an elicitation as a user does who opens the page.
func decide(t *testing.T, decision string) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		get, err := http.Get(r.Params.URL)
		if err != nil {
			return nil, err
		}
		defer get.Body.Close()
		if text, _ := io.ReadAll(get.Body); !strings.Contains(string(text), "mailer__send") || !strings.Contains(string(text), "[EMAIL_1]") {
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

// TestGatewayAsks has the client's user decide on a page, or in a form where that is configured; nobody else can.
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

// TestGatewayDecidedLater goes on with a run whose request is decided on the page after its client has given up.
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

// TestGatewayAsksOften has two runs that wait on the page at the same time: each goes on after its own decision.
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
