package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
)

// asking configures the demo mailer with a policy that asks a person about each mail.
func (f *fixture) asking() {
	f.t.Helper()
	f.write("harness.yaml", "policy: [{tools: mailer__send, action: ask}]\nmcpServers:\n  mailer: {command: "+quoted(self(f.t))+
		", args: [__demo-server, mailer, "+quoted(f.dir)+"]}\n")
}

// sendMail returns a program that sends a mail.
func sendMail(subject string) string {
	return fmt.Sprintf(`console.log('sending'); await tools.mailer.send({to: 'ann@example.com', subject: %q, body: 'x'}); return 'sent'`, subject)
}

// mails returns the number of mails that were sent.
func (f *fixture) mails() int {
	entries, err := os.ReadDir(f.dir + "/outbox")
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return len(entries)
}

// TestApprovalReplaced checks that approvals show names the value that a token stands for, and warns that the value may end a text in code. The output of exec
// shows no such value, because an agent may read it.
func TestApprovalReplaced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	var out run.Outcome
	r := f.run("exec", "--json", "-e", sendMail("INSERT ('o'brien@example.com')")).want(4).value(&out)
	const warning = "[EMAIL_2] is part of $.subject and is replaced by \"o'brien@example.com\"; warning: the value of [EMAIL_2] contains a quote, which may end a text in code"
	if strings.Contains(r.stdout+r.stderr, "brien") {
		t.Errorf("exec tells the value: %s%s", r.stdout, r.stderr)
	}
	shown := f.run("approvals", "show", out.Approval.ID).want(0).stdout
	if !strings.Contains(shown, warning) || !strings.Contains(shown, `pii_1e@d1.pii.invalid is $.to and is replaced by "ann@example.com"`+"\n") {
		t.Errorf("shown: %s", shown)
	}
	var request approval.Request
	f.run("approvals", "show", out.Approval.ID, "--json").want(0).value(&request)
	if len(request.Calls) != 1 || len(request.Calls[0].Replaced) != 2 || request.Calls[0].Replaced[0].Value != "o'brien@example.com" {
		t.Errorf("as JSON: %+v", request)
	}
	f.run("approvals", "approve", out.Approval.ID).want(0)
}

// TestApprovalCompared checks that approvals show compares, line by line, a new text with the text that the run has read.
func TestApprovalCompared(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "policy: [{tools: crm__update_note, action: ask}]\nmcpServers:\n  crm: {command: "+quoted(self(f.t))+", args: [__demo-server, crm, "+quoted(f.dir)+"]}\n")
	ask := func(note string) (shown, id string) {
		t.Helper()
		var out run.Outcome
		f.run("exec", "--json", "-e", fmt.Sprintf("await tools.crm.get({id: 1001}); return await tools.crm.update_note({id: 1001, note: %q})", note)).want(4).value(&out)
		return f.run("approvals", "show", out.Approval.ID).want(0).stdout, out.Approval.ID
	}
	shown, id := ask("calls on Mondays\nlikes tea")
	if strings.Contains(shown, "compared") {
		t.Errorf("a note that was not there before: %s", shown)
	}
	f.run("approvals", "approve", id).want(0)
	shown, _ = ask("calls on Mondays\nlikes coffee")
	for _, want := range []string{"    $.note, compared with what the program read with crm__get before (call 1)\n      @@ -1,2 +1,2 @@\n       calls on Mondays\n      -likes tea\n", "      +likes coffee\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("shown: %s\nwant %s", shown, want)
		}
	}
}

// TestApprovalUnread checks a request whose tokens cannot be replaced because the configuration of another directory has another key. The request says so, and
// it can be shown and denied.
func TestApprovalUnread(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	var out run.Outcome
	f.run("exec", "--json", "-e", sendMail("one")).want(4).value(&out)
	other := f.write("other/harness.yaml", f.read("harness.yaml")+"store: {url: "+quoted("sqlite:"+filepath.Join(f.dir, "data", "harness.db"))+"}\n")
	shown := f.run("--config", other, "approvals", "show", out.Approval.ID).want(0).stdout
	if !strings.Contains(shown, "pii_1e@d1.pii.invalid") || !strings.Contains(shown, "cannot be told: find tokens") || !strings.Contains(shown, "the key of this value is missing") {
		t.Errorf("shown: %s", shown)
	}
	f.run("--config", other, "approvals", "deny", out.Approval.ID).want(1) // the program fails, as after every denied call
	if shown = f.run("approvals", "show", out.Approval.ID).want(0).stdout; !strings.Contains(shown, "denied") || f.mails() != 0 {
		t.Errorf("denied: %s; %d mails", shown, f.mails())
	}
}

// TestApprovals checks that a waiting run ends the command with exit code 4, that an approval resumes the run, and that a denial is an error of the call.
func TestApprovals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	var out run.Outcome
	r := f.run("exec", "--json", "-e", sendMail("one")).want(4).value(&out)
	if out.Status != run.WaitingApproval || out.Approval == nil || out.Error != nil {
		t.Fatalf("got %+v", out)
	}
	id := out.Approval.ID
	if strings.Contains(r.stderr, "approvals approve") || !strings.Contains(r.stderr, id) || !strings.Contains(r.stderr, `mailer__send {"body":"x","subject":"one"`) {
		t.Errorf("the hint is %s", r.stderr)
	}
	var all struct{ Approvals []approval.Request }
	f.run("approvals", "list", "--json").want(0).value(&all)
	if len(all.Approvals) != 1 || all.Approvals[0].ID != id || all.Approvals[0].Run != out.RunID {
		t.Errorf("the list is %+v", all)
	}
	if r := f.run("approvals", "list").want(0); !strings.Contains(r.stdout, id) || !strings.Contains(r.stdout, "mailer__send") {
		t.Errorf("the list is %s", r.stdout)
	}
	if r := f.run("approvals", "show", id).want(0); !strings.Contains(r.stdout, "rule 1") || !strings.Contains(r.stdout, `"to":"pii_1e@d1.pii.invalid"`) {
		t.Errorf("shown: %s", r.stdout)
	}
	if r := f.run("runs", "list", "--status", "waiting_approval").want(0); !strings.Contains(r.stdout, out.RunID) {
		t.Errorf("the runs are %s", r.stdout)
	}
	if n := f.mails(); n != 0 {
		t.Errorf("%d mails before the approval", n)
	}
	f.run("runs", "resume", out.RunID).want(4)
	if r := f.run("approvals", "approve", id).want(0); r.stdout != "sent\n" || f.mails() != 1 {
		t.Errorf("approved: %q, %d mails", r.stdout, f.mails())
	}
	for _, flags := range [][]string{nil, {"--follow"}} {
		if r := f.run(append([]string{"runs", "show", out.RunID}, flags...)...).want(0); !regexp.MustCompile(`waited .+ for approval, took \d+ ms`).MatchString(r.stdout) {
			t.Errorf("%v: the run is shown as %s", flags, r.stdout)
		}
	}
	f.run("approvals", "approve", id).want(2)
	if r := f.run("approvals", "show", "apr_none").want(2); !strings.Contains(r.stderr, "no such approval in the store sqlite:") {
		t.Errorf("an unknown id: %s", r.stderr)
	}
	f.run("runs", "replay", out.RunID).want(0)

	f.run("exec", "--json", "-e", sendMail("two")).want(4).value(&out)
	if r := f.run("approvals", "deny", out.Approval.ID, "--reason", "not before Monday").want(1); !strings.Contains(r.stderr, "not before Monday") {
		t.Errorf("denied: %s", r.stderr)
	}
	f.run("exec", "--json", "-e", `for (let i = 0; i < 3; i++) await tools.mailer.send({to: 'ann@example.com', subject: 's' + i, body: 'x'})`).want(4).value(&out)
	f.run("approvals", "approve", out.Approval.ID, "--remember").want(0)
	if n := f.mails(); n != 4 {
		t.Errorf("%d mails, want 4", n)
	}
}

// TestRunApproval checks that a waiting task ends harness run with exit code 4, and that an approval resumes the task.
func TestRunApproval(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.modelled(fake.Replies(code(sendMail("one")), fake.Reply{Text: "It is sent."}))
	var waiting task.Task
	r := f.run("run", "--json", "Send it").want(4).value(&waiting)
	if waiting.Status != task.WaitingApproval || !strings.Contains(r.stderr, "apr_") {
		t.Errorf("%+v: %s", waiting, r.stderr)
	}
	var all struct{ Approvals []approval.Request }
	f.run("approvals", "list", "--json").want(0).value(&all)
	if len(all.Approvals) != 1 || all.Approvals[0].Task != waiting.ID {
		t.Fatalf("the list is %+v", all)
	}
	if r := f.run("approvals", "approve", all.Approvals[0].ID).want(0); r.stdout != "It is sent.\n" || f.mails() != 1 {
		t.Errorf("approved: %q, %d mails: %s", r.stdout, f.mails(), r.stderr)
	}
}

// TestServeApproval checks that a server resumes a run and a task that another process approves, also if the server was restarted while they waited.
func TestServeApproval(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.modelled(func(r fake.Request) fake.Reply {
		if r.Last().Role == "tool" {
			return fake.Reply{Text: "It is sent."}
		}
		return code(sendMail("task"))
	})
	token := "Bearer " + strings.TrimSpace(f.run("token").want(0).stdout)
	s := f.serve()
	post := func(path, body string) string {
		status, text := s.do(http.MethodPost, path, body, "Authorization", token)
		if status != http.StatusOK && status != http.StatusAccepted {
			t.Fatalf("POST %s: %d %s", path, status, text)
		}
		return text
	}
	post("/v1/runs", `{"userId":"local","code":`+quoted(sendMail("run"))+`}`)
	post("/v1/tasks", `{"userId":"local","task":"Send it"}`)
	var all struct{ Approvals []approval.Request }
	eventually(t, "run and task wait", func() bool {
		f.run("approvals", "list", "--json").want(0).value(&all)
		return len(all.Approvals) == 2
	})
	if exit := s.stop(); exit != 0 {
		t.Fatalf("it exited with %d: %s", exit, s.log)
	}
	s = f.serve()
	for _, r := range all.Approvals {
		if r := f.run("approvals", "approve", r.ID).want(0); !strings.Contains(r.stderr, "the server resumes") {
			t.Errorf("approved: %s", r.stderr)
		}
	}
	eventually(t, "both have ended", func() bool {
		for _, path := range []string{"/v1/runs?status=succeeded", "/v1/tasks?status=succeeded"} {
			_, text := s.do(http.MethodGet, path, "", "Authorization", token)
			if want := 1 + strings.Count(path, "runs"); strings.Count(text, `"status":"succeeded"`) != want {
				return false
			}
		}
		return true
	})
	if n := f.mails(); n != 2 {
		t.Errorf("%d mails", n)
	}
}
