package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// gatewayTask is the structured content of run_task.
type gatewayTask struct {
	TaskID, Status, Text string
	Runs                 []string
	Error                *struct{ Kind, Message string }
	Usage                *struct{ Turns, Runs int }
	Approval             *struct{ ID string }
}

// TestGatewayTask checks that the configured model works a client's task. The client gets the answer with tokens, progress with the names of called tools, and
// the same answer by the id of the task. With run_task, the gateway's tools and instructions still take fewer than 1,500 model tokens.
func TestGatewayTask(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcp: {tasks: true}\n")
	f.addDemo("crm")
	f.modelled(fake.Replies(
		code("console.log('looking'); await tools.crm.search({q: ''}); return 42"),
		fake.Reply{Text: "Ask ann.smith@example.com.", Usage: fake.Usage{Input: 200, Output: 5}},
	))
	called := make(chan struct{}, 1)
	g := f.gateway(&mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.Message == "crm__search" {
				called <- struct{}{}
			}
		},
	})
	listed, err := g.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 4 {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	definitions, err := json.Marshal(listed.Tools)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := model.Vocabulary().Count(string(definitions) + g.InitializeResult().Instructions); err != nil || n >= 1500 {
		t.Errorf("the tools take %d model tokens, %v", n, err)
	}
	params := &mcp.CallToolParams{Name: "run_task", Arguments: map[string]any{"task": "Whom shall we ask?"}}
	params.SetProgressToken("p")
	r, err := g.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	var out gatewayTask
	raw, _ := json.Marshal(r.StructuredContent)
	if err := json.Unmarshal(raw, &out); err != nil || r.IsError || out.Status != "succeeded" || !strings.HasPrefix(out.Text, "Ask pii_") || len(out.Runs) != 1 ||
		out.Usage == nil || out.Usage.Turns != 2 {
		t.Fatalf("the client gets %s, %v\n%s", raw, err, g.stderr)
	}
	select {
	case <-called:
	case <-time.After(2 * time.Minute):
		t.Error("the progress does not name the tool that the program calls")
	}
	var same gatewayTask
	if text, failed := g.call("run_task", map[string]any{"taskId": out.TaskID}, &same); failed || same.Text != out.Text || !strings.Contains(text, out.Text) {
		t.Errorf("by its id it is %+v\n%s", same, text)
	}
	var ran gatewayRun
	if g.call("execute_code", map[string]any{"runId": out.Runs[0]}, &ran); string(ran.Output) != "42" || len(ran.Logs) != 1 {
		t.Errorf("its program is %+v", ran)
	}
	for want, args := range map[string]map[string]any{
		"what to do":      {"task": " "},
		"send taskId":     {"task": "x", "taskId": out.TaskID},
		"you have no":     {"taskId": "task_none"},
		"expected string": {"task": 1},
		"10000 characte":  {"task": strings.Repeat("x", 10_001)},
	} {
		if text, failed := g.call("run_task", args, nil); !failed || !strings.Contains(text, want) {
			t.Errorf("%.40v gives %s", args, text)
		}
	}
}

// TestGatewayTaskWithoutModel checks that run_task without a model is an error that names the missing settings.
func TestGatewayTaskWithoutModel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, args := range [][]string{{"mcp", "--tasks"}, {"serve", "--listen", "127.0.0.1:0"}} {
		f.write("harness.yaml", "mcp: {tasks: true}\n")
		if r := f.run(args...).want(2); !strings.Contains(r.stderr, "mcp.tasks") || !strings.Contains(r.stderr, "ANTHROPIC_API_KEY") {
			t.Errorf("%v says %s", args, r.stderr)
		}
	}
}

// TestGatewayTaskApproval checks a task that waits for an approval: a client that cannot ask gets the result by the task's id, and another client's user
// decides on a page.
func TestGatewayTaskApproval(t *testing.T) {
	t.Parallel()
	script := func() fake.Script { return fake.Replies(code(sendMail("one")), fake.Reply{Text: "Sent."}) }
	t.Run("by id", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.asking()
		f.modelled(script())
		g := f.gateway(nil, "--tasks")
		var out gatewayTask
		text, failed := g.call("run_task", map[string]any{"task": "Write to Ann."}, &out)
		if failed || out.Status != "waiting_approval" || out.Approval == nil || !strings.Contains(text, `{"taskId": "`+out.TaskID+`"}`) || f.mails() != 0 {
			t.Fatalf("it is %+v, and %d mails are sent\n%s", out, f.mails(), text)
		}
		var same gatewayTask
		if g.call("run_task", map[string]any{"taskId": out.TaskID}, &same); same.Status != "waiting_approval" {
			t.Errorf("before the decision it is %+v", same)
		}
		f.run("approvals", "approve", out.Approval.ID).want(0)
		if text, _ := g.call("run_task", map[string]any{"taskId": out.TaskID}, &same); same.Status != "succeeded" || same.Text != "Sent." || f.mails() != 1 {
			t.Errorf("after it is %+v, and %d mails are sent\n%s\n%s", same, f.mails(), text, g.stderr)
		}
	})
	for decision, mails := range map[string]int{"approve": 1, "deny": 0} {
		t.Run("page "+decision, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.asking()
			f.modelled(script())
			can := &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
			g := f.gateway(&mcp.ClientOptions{ElicitationHandler: decide(t, decision), Capabilities: &mcp.ClientCapabilities{Elicitation: can}}, "--tasks")
			var out gatewayTask
			if text, _ := g.call("run_task", map[string]any{"task": "Write to Ann."}, &out); out.Status != "succeeded" || f.mails() != mails {
				t.Errorf("it is %+v, and %d mails are sent\n%s\n%s", out, f.mails(), text, g.stderr)
			}
		})
	}
}

// TestGatewayTaskCancel checks that cancelling a request of run_task cancels the task.
func TestGatewayTaskCancel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	asked := make(chan struct{})
	f.modelled(func(fake.Request) fake.Reply {
		close(asked)
		return fake.Reply{Text: "Late.", Latency: time.Hour}
	})
	g := f.gateway(nil, "--tasks")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if r, err := g.CallTool(ctx, &mcp.CallToolParams{Name: "run_task", Arguments: map[string]any{"task": "Wait."}}); err == nil {
		t.Fatalf("it is answered with %+v", r.Content[0])
	}
	var list struct{ Tasks []struct{ Status string } }
	for deadline := time.Now().Add(2 * time.Minute); len(list.Tasks) != 1 || list.Tasks[0].Status != "cancelled"; time.Sleep(50 * time.Millisecond) {
		if f.run("tasks", "list", "--json").want(0).value(&list); time.Now().After(deadline) {
			t.Fatalf("the tasks are %+v", list)
		}
	}
}

// TestGatewayTaskTokens checks that a task may contain tokens of the client's session, which stand for the same values. A value that a client writes itself
// gets a new token, so that the client cannot test whether a guessed value has been seen.
func TestGatewayTaskTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "mcp: {tasks: true}\n")
	f.addDemo("crm")
	replies := make([]fake.Reply, 3)
	for i := range replies {
		replies[i] = fake.Reply{Text: "Done."}
	}
	models := f.modelled(fake.Replies(replies...))
	const find = `const found = JSON.stringify(await tools.crm.search({q: ''})).match(/pii_\d+e@d\d+\.pii\.invalid/g); return [found[0], found[1]]`
	var values []string
	f.run("exec", "-e", find).want(0).value(&values)
	g := f.gateway(nil)
	var ran gatewayRun
	var tokens []string
	g.call("execute_code", map[string]any{"code": find}, &ran)
	if err := json.Unmarshal(ran.Output, &tokens); err != nil || len(values) != 2 || !strings.Contains(values[0], "@") {
		t.Fatalf("tokens %s of %q, %v", ran.Output, values, err)
	}
	// asked runs a task and returns the text that the model reads.
	asked := func(task string) string {
		t.Helper()
		var out gatewayTask
		if text, failed := g.call("run_task", map[string]any{"task": task}, &out); failed || out.Status != "succeeded" {
			t.Fatalf("%.80s: %s\n%s", task, text, g.stderr)
		}
		all := models.Requests()
		return all[len(all)-1].Last().Text
	}
	if got := asked("Write to " + tokens[0] + "."); !strings.Contains(got, "Write to "+tokens[0]+".") {
		t.Errorf("a token of the session became %q", got)
	}
	for i, value := range values {
		if got := asked("Is it " + value + "?"); strings.Contains(got, tokens[i]) || !strings.Contains(got, "Is it pii_") {
			t.Errorf("a guess became %q", got)
		}
	}
}
