package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/run"
)

const passphrase = "seven green kettles sing"

// atKeyboard runs a command in this process. Its standard input is a terminal at which the given lines have been typed.
func (f *fixture) atKeyboard(lines []string, args ...string) *result {
	f.t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		f.t.Fatal(err)
	}
	defer keyboard.Close()
	defer tty.Close()
	for _, line := range lines {
		if _, err := io.WriteString(keyboard, line+"\n"); err != nil {
			f.t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, keyboard) }() // discards what the terminal shows; ends when the terminal is closed
	var stdout, stderr bytes.Buffer
	w := f.world(args, "", &stdout, &stderr)
	w.Stdin = tty
	code := cli.Main(f.t.Context(), w)
	return &result{f.t, args, code, stdout.String(), stderr.String()}
}

// confirmed sets up the passphrase.
func (f *fixture) confirmed() {
	f.t.Helper()
	f.atKeyboard([]string{passphrase, passphrase}, "approvals", "setup").want(0)
}

// waiting runs a program whose mail waits for an approval, and returns the outcome.
func (f *fixture) waiting(subject string, args ...string) run.Outcome {
	f.t.Helper()
	var out run.Outcome
	f.run(append([]string{"exec", "--json", "-e", sendMail(subject)}, args...)...).want(4).value(&out)
	return out
}

// edit changes the database, as any process can that may write the file.
func (f *fixture) edit(statement string, args ...any) {
	f.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(f.dir, "data", "harness.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(f.t.Context(), statement, args...); err != nil {
		f.t.Fatal(err)
	}
}

// TestPassphrase sets up a passphrase, confirms approvals with it, and changes it. Approvals that the old passphrase confirmed stay valid.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	if r := f.run("approvals", "setup").want(2); !strings.Contains(r.stderr, "in a terminal") {
		t.Errorf("without a terminal: %s", r.stderr)
	}
	for _, typed := range [][]string{{"short", ""}, {passphrase, "another passphrase", ""}} {
		f.atKeyboard(typed, "approvals", "setup").want(2)
	}
	if r := f.run("doctor"); !strings.Contains(r.stdout, "no passphrase") || !strings.Contains(r.stdout, "fix: harness approvals setup") {
		t.Errorf("doctor: %s", r.stdout)
	}
	f.confirmed()
	out := f.waiting("one")
	r := f.atKeyboard([]string{"not this one", passphrase}, "approvals", "approve", out.Approval.ID).want(0)
	if f.mails() != 1 || r.stdout != "sent\n" || strings.Contains(r.stderr, passphrase) || !strings.Contains(r.stderr, `"subject":"one"`) {
		t.Errorf("%d mails; %s%s", f.mails(), r.stdout, r.stderr)
	}
	if r := f.run("doctor"); !strings.Contains(r.stdout, "confirmed by passphrase") || strings.Contains(r.stdout, "valid signature") {
		t.Errorf("doctor: %s", r.stdout)
	}
	out = f.waiting("two")
	f.run("approvals", "deny", out.Approval.ID).want(1) // a denial needs no passphrase

	const other = "eight blue spoons dance"
	f.atKeyboard([]string{"wrong", "wrong", "wrong"}, "approvals", "setup").want(2)
	f.atKeyboard([]string{passphrase, other, other}, "approvals", "setup").want(0)
	out = f.waiting("three")
	f.atKeyboard([]string{passphrase, passphrase, passphrase}, "approvals", "approve", out.Approval.ID).want(2)
	f.atKeyboard([]string{other}, "approvals", "approve", "--remember", out.Approval.ID).want(0)
	if f.mails() != 2 {
		t.Errorf("%d mails", f.mails())
	}
	audit := f.read("data/audit.jsonl")
	for _, want := range []string{`"change":"created"`, `"change":"passphrase changed"`, "wrong passphrase of approvals", `"confirmed":true`} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit log has no %s: %s", want, audit)
		}
	}
	for _, name := range []string{"data/audit.jsonl", "data/confirm.key", "data/harness.db"} {
		if text := f.read(name); strings.Contains(text, passphrase) || strings.Contains(text, other) {
			t.Errorf("%s has a passphrase", name)
		}
	}
}

// TestPassphraseLarge confirms a call whose large arguments are read from the journal.
func TestPassphraseLarge(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.confirmed()
	var out run.Outcome
	f.run("exec", "--json", "-e", `return await tools.mailer.send({to: 'ann@example.com', subject: 'x', body: 'all <b>work</b> & no play. '.repeat(5000)})`).want(4).value(&out)
	f.atKeyboard([]string{passphrase}, "approvals", "approve", out.Approval.ID).want(0)
	if f.mails() != 1 {
		t.Errorf("%d mails", f.mails())
	}
}

// TestPassphraseAsked checks that a command at a terminal asks for the decision and then for the passphrase, also if a server executes the command.
func TestPassphraseAsked(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"by itself", "by a server"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.asking()
			f.confirmed()
			runs := func() int { return strings.Count(f.read("data/audit.jsonl"), `"eventType":"code_execution"`) }
			if where == "by a server" {
				f.serveProcess()
			}
			shown := f.typed("y\n"+passphrase+"\n", "exec", "-e", sendMail("one"))
			if f.mails() != 1 || strings.Count(shown, "Passphrase") != 1 {
				t.Errorf("%d mails: %s", f.mails(), shown)
			}
			if page := regexp.MustCompile(`http://127\.0\.0\.1:\d+/runs/run_`).MatchString(shown); page != (where == "by a server") {
				t.Errorf("the page of the run: %t: %s", page, shown)
			}
			if served := runs() > 0; served != (where == "by a server") {
				t.Errorf("executed by a server: %t: %s%s", served, shown, f.read("data/audit.jsonl"))
			}
		})
	}
}

// serveProcess starts a server in a separate process, and stops it at the end of the test.
func (f *fixture) serveProcess() {
	f.t.Helper()
	cmd := f.process("serve", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, stderr)
		if err := cmd.Wait(); err != nil {
			f.t.Errorf("the server: %v", err)
		}
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "http://127.0.0.1:") {
			return
		}
	}
	f.t.Fatal("the server does not start")
}

// TestConfirmedPolicy checks that a policy allows nothing by itself until a person has confirmed it.
func TestConfirmedPolicy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.run("policy", "confirm").want(2)
	f.confirmed()
	config := f.read("harness.yaml")
	for name, changed := range map[string]string{
		"rules":      strings.Replace(config, "action: ask", "action: allow", 1),
		"none":       config[strings.Index(config, "mcpServers"):],
		"personal":   strings.Replace(config, "action: ask", "action: allow", 1) + "pii: {enabled: false}\n",
		"quarantine": strings.Replace(config, "action: ask", "action: allow", 1) + "quarantine: new\n",
	} {
		f.write("harness.yaml", changed)
		if name != "quarantine" { // the changed quarantine setting holds the tool, so no call is made
			out := f.waiting(name)
			if out.Approval.Calls[0].Reason == "" || f.mails() != 0 {
				t.Errorf("%s: %+v, %d mails", name, out.Approval, f.mails())
			}
		}
		if r := f.run("doctor"); !strings.Contains(r.stdout, "harness policy confirm") {
			t.Errorf("%s: doctor: %s", name, r.stdout)
		}
		f.run("policy", "confirm").want(2)
		f.atKeyboard([]string{"wrong", "wrong", "wrong"}, "policy", "confirm").want(2)
	}
	f.write("harness.yaml", strings.Replace(config, "action: ask", "action: allow", 1))
	f.atKeyboard([]string{passphrase}, "policy", "confirm").want(0)
	f.run("exec", "-e", sendMail("confirmed")).want(0)
	other := f.write("other.yaml", f.read("harness.yaml")) // confirmations are for one file, and this file has another name
	var out run.Outcome
	f.run("exec", "--config", other, "--json", "-e", sendMail("other")).want(4).value(&out)
	if f.mails() != 1 {
		t.Errorf("%d mails", f.mails())
	}
}

// adversary is an agent with a shell of the same user. It wants its own call to be made, and knows everything except the passphrase.
type adversary struct {
	*fixture
	waits   run.Outcome // outcome of the run that waits for the adversary's call
	earlier run.Outcome // outcome of a run whose call a person has approved and wants remembered
	config  string
}

// commands are attacks that change no file. None of them may make the call.
var commands = map[string]func(a *adversary){
	"the command":                   func(a *adversary) { a.run("approvals", "approve", a.id()).want(2) },
	"the command with --json":       func(a *adversary) { a.run("--json", "approvals", "approve", a.id()).want(2) },
	"the command with --remember":   func(a *adversary) { a.run("approvals", "approve", "--remember", a.id()).want(2) },
	"the passphrase by a pipe":      func(a *adversary) { a.runIn(a.t.Context(), passphrase+"\n", "approvals", "approve", a.id()).want(2) },
	"the passphrase as an argument": func(a *adversary) { a.run("approvals", "approve", a.id(), passphrase).want(2) },
	"the passphrase in variables": func(a *adversary) {
		for _, name := range []string{"PASSPHRASE", "HARNESS_PASSPHRASE", "HARNESS_APPROVALS_PASSPHRASE"} {
			a.environ = append(a.environ, name+"="+passphrase)
		}
		a.run("approvals", "approve", a.id()).want(2)
	},
	"a pseudo-terminal with guesses": func(a *adversary) {
		a.atKeyboard([]string{"", "password12", "correct horse battery staple"}, "approvals", "approve", a.id()).want(2)
	},
	"a pseudo-terminal with yes": func(a *adversary) { a.atKeyboard([]string{"y", "yes", "a"}, "approvals", "approve", a.id()).want(2) },
	"a passphrase of its own": func(a *adversary) {
		a.atKeyboard([]string{"my own passphrase", "my own passphrase", "my own passphrase"}, "approvals", "setup").want(2)
	},
	"approvals.confirm none in a variable": func(a *adversary) {
		a.environ = append(a.environ, "HARNESS_APPROVALS_CONFIRM=none")
		a.run("approvals", "approve", a.id()).want(2)
	},
	"a policy that allows in a variable": func(a *adversary) {
		a.environ = append(a.environ, `HARNESS_POLICY=[{tools: "*", action: allow}]`)
		a.resume()
		a.run("exec", "-e", sendMail("attack")).want(4)
	},
	"a key with more roles": func(a *adversary) {
		a.run("keys", "create", "--role", "approver").want(2)
		a.run("keys", "create", "--role", "admin", "--user", "local").want(2)
		a.atKeyboard([]string{"y", "y", "y"}, "keys", "create").want(2)
	},
}

// changes are attacks that change files or use servers of the adversary.
var changes = map[string]func(a *adversary){
	"approvals.confirm none in .env": func(a *adversary) {
		a.write(".env", "HARNESS_APPROVALS_CONFIRM=none\n")
		a.run("approvals", "approve", a.id())
	},
	"approvals.confirm none in harness.yaml": func(a *adversary) {
		a.write("harness.yaml", a.config+"approvals: {confirm: none}\n")
		a.run("approvals", "approve", a.id()).want(2)
		a.resume()
	},
	"a policy that allows": func(a *adversary) {
		a.write("harness.yaml", strings.Replace(a.config, "action: ask", "action: allow", 1))
		a.resume()
		a.run("exec", "-e", sendMail("attack")).want(4)
	},
	"another configuration on the same store": func(a *adversary) {
		other := a.write("other/harness.yaml", strings.Replace(a.config, "action: ask", "action: allow", 1)+a.sameStore())
		a.run("--config", other, "approvals", "approve", a.id()).want(2)
		a.run("--config", other, "runs", "resume", a.waits.RunID)
		a.run("--config", other, "exec", "-e", sendMail("attack")).want(4)
	},
	"a passphrase of its own in another directory": func(a *adversary) {
		other := a.write("other/harness.yaml", a.config+a.sameStore())
		a.atKeyboard([]string{"my own passphrase", "my own passphrase"}, "--config", other, "approvals", "setup").want(2)
		a.atKeyboard([]string{"my own passphrase"}, "--config", other, "approvals", "approve", a.id()).want(2)
	},
	"a key file of its own in another directory": func(a *adversary) {
		sealed, err := approval.NewSealedKey("my own passphrase", a.world(nil, "", nil, nil).Now())
		if err == nil {
			err = os.MkdirAll(filepath.Join(a.dir, "other", "data"), 0o700)
		}
		if err == nil {
			err = sealed.Save(filepath.Join(a.dir, "other", "data"), true)
		}
		if err != nil {
			a.t.Fatal(err)
		}
		other := a.write("other/harness.yaml", a.config+a.sameStore())
		a.atKeyboard([]string{"my own passphrase"}, "--config", other, "approvals", "approve", a.id()).want(2)
		a.atKeyboard([]string{"my own passphrase"}, "--config", other, "policy", "confirm").want(2)
		a.run("--config", other, "runs", "resume", a.waits.RunID)
	},
	"the local token at a server of its own": func(a *adversary) {
		s := a.serve()
		token := strings.TrimSpace(a.run("token").want(0).stdout)
		for _, body := range []string{
			`{"decision":"approve"}`, `{"decision":"approve","remember":true}`, `{"decision":"approve","passphrase":"` + passphrase + `"}`,
			`{"decision":"approve","signature":"AAAA"}`,
		} {
			if status, answer := a.post(s.url+"/v1/approvals/"+a.id(), token, body); status != http.StatusForbidden || !strings.Contains(answer, "passphrase") {
				a.t.Errorf("%s: %d %s", body, status, answer)
			}
		}
	},
	"a key that is written into the database": func(a *adversary) {
		value := strings.TrimSpace(a.run("keys", "create", "--user", "local").want(0).stdout)
		a.edit(`UPDATE keys SET roles = '["admin","approver","user"]', user = ''`)
		s := a.serve()
		if status, answer := a.post(s.url+"/v1/approvals/"+a.id(), value, `{"decision":"approve"}`); status != http.StatusForbidden {
			a.t.Errorf("%d %s", status, answer)
		}
	},
	"the page without the passphrase": func(a *adversary) {
		var pages []string
		g := a.gateway(&mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				pages = append(pages, r.Params.URL)
				for _, form := range []url.Values{{}, {"passphrase": {""}}, {"passphrase": {"guess"}}, {"passphrase": {"another guess"}, "seen": {"x"}}} {
					form.Set("decision", "approve")
					posted, err := http.PostForm(r.Params.URL, form)
					if err != nil {
						return nil, err
					}
					posted.Body.Close()
				}
				return &mcp.ElicitResult{Action: "cancel"}, nil
			},
		})
		var out gatewayRun
		if text, _ := g.call("execute_code", map[string]any{"code": sendMail("attack")}, &out); out.Status != "waiting_approval" || len(pages) != 1 {
			a.t.Errorf("%+v: %s", out, text)
		}
	},
	"a form that its client fills in": func(a *adversary) {
		g := a.gateway(&mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}, nil
			},
		}, "--forms")
		var out gatewayRun
		if text, _ := g.call("execute_code", map[string]any{"code": sendMail("attack")}, &out); out.Status != "waiting_approval" {
			a.t.Errorf("%+v: %s", out, text)
		}
	},
	"an approval that is written into the database": func(a *adversary) {
		a.approveByHand()
		a.resume()
		if r := a.run("doctor"); !strings.Contains(r.stdout, "no valid signature") {
			a.t.Errorf("doctor: %s", r.stdout)
		}
		if text := a.read("data/audit.jsonl"); !strings.Contains(text, "no valid signature") {
			a.t.Errorf("the audit log: %s", text)
		}
	},
	"the signature of another approval": func(a *adversary) {
		a.approveByHand()
		a.edit(`UPDATE approvals SET (signature, decided, decided_by, remember) = (SELECT signature, decided, decided_by, remember FROM approvals WHERE id = ?) WHERE id = ?`,
			a.earlier.Approval.ID, a.id())
		a.resume()
	},
	"another approval that is moved to the run": func(a *adversary) {
		a.edit(`UPDATE approvals SET run = (SELECT num FROM runs WHERE id = ?) WHERE id = ?`, a.waits.RunID, a.earlier.Approval.ID)
		a.approveByHand()
		a.resume()
	},
	"another approval with the request of the call": func(a *adversary) {
		a.edit(`UPDATE approvals SET request = (SELECT request FROM approvals WHERE id = ?1), run = (SELECT run FROM approvals WHERE id = ?1) WHERE id = ?2`,
			a.id(), a.earlier.Approval.ID)
		a.edit(`DELETE FROM approvals WHERE id = ?`, a.id())
		a.resume()
	},
	"a remembered approval for a task of its own": func(a *adversary) {
		a.edit(`UPDATE approvals SET task = 'tsk_mine' WHERE id = ?`, a.earlier.Approval.ID)
		a.edit(`UPDATE approvals SET task = 'tsk_mine' WHERE id = ?`, a.id())
		a.resume()
	},
	"a database without the key": func(a *adversary) {
		a.edit(`DELETE FROM confirmations`)
		a.run("approvals", "approve", a.id()).want(2)
		a.approveByHand()
		a.resume()
	},
	"a database with another key": func(a *adversary) {
		sealed, err := approval.NewSealedKey("my own passphrase", a.world(nil, "", nil, nil).Now())
		if err != nil {
			a.t.Fatal(err)
		}
		a.edit(`UPDATE confirmations SET value = ? WHERE subject = 'key'`, []byte(sealed.Public))
		a.run("approvals", "approve", a.id()).want(2)
		a.approveByHand()
		a.resume()
		if r := a.run("doctor"); !strings.Contains(r.stdout, "was replaced") {
			a.t.Errorf("doctor: %s", r.stdout)
		}
	},
	"a policy that is written as confirmed": func(a *adversary) {
		a.write("harness.yaml", strings.Replace(a.config, "action: ask", "action: allow", 1))
		a.edit(`UPDATE confirmations SET value = json_set(value, '$.hash', '00') WHERE subject <> 'key'`)
		a.resume()
		a.run("exec", "-e", sendMail("attack")).want(4)
	},
	"a review of definitions": func(a *adversary) {
		a.write("harness.yaml", a.config+"quarantine: new\n")
		a.run("servers", "review", "mailer", "--approve-all").want(2)
		a.atKeyboard([]string{"y", "guess", "guess"}, "servers", "review", "mailer", "--approve-all").want(2)
		a.run("exec", "-e", sendMail("attack")).want(1)
	},
	"a backup over what is there": func(a *adversary) {
		archive := filepath.Join(a.t.TempDir(), "b.tar.gz")
		a.run("backup", archive).want(0)
		if r := a.run("restore", "--force", archive).want(2); !strings.Contains(r.stderr, "terminal") {
			a.t.Errorf("it says %s", r.stderr)
		}
		a.atKeyboard([]string{"guess", "guess", "guess"}, "restore", "--force", archive).want(2)
		a.atKeyboard([]string{passphrase}, "restore", "--force", archive).want(0)
	},
	"definitions that are written into the database as approved": func(a *adversary) {
		a.write("harness.yaml", a.config+"quarantine: new\n")
		a.run("servers", "test", "mailer")
		const approve = `UPDATE pins SET approved = seen, approved_as = coalesce(seen_as, approved_as), seen_as = NULL WHERE seen <> ''`
		a.edit(approve)
		a.run("exec", "-e", sendMail("attack")).want(1)
		// The signatures of another server's definitions and of another definition are invalid here.
		a.atKeyboard([]string{"y", passphrase}, "servers", "review", "mailer", "--approve-all").want(0)
		a.edit(`UPDATE confirmations SET subject = 'definitions of other' WHERE subject = 'definitions of mailer'`)
		a.edit(approve)
		a.run("exec", "-e", sendMail("attack")).want(1)
		a.edit(`UPDATE confirmations SET value = replace(value, '"content":{', '"content":{"other":"0",') WHERE subject LIKE 'definitions of %'`)
		a.edit(`UPDATE confirmations SET subject = 'definitions of mailer' WHERE subject = 'definitions of other'`)
		a.edit(approve)
		a.run("exec", "-e", sendMail("attack")).want(1)
		// After a person has approved the definitions, the call asks for an approval as before.
		a.atKeyboard([]string{"y", passphrase}, "servers", "review", "mailer", "--approve-all").want(0)
		a.run("exec", "-e", sendMail("attack")).want(4)
		// The rows can contradict a signature if one review reads the signatures before another review stores one. Then the signature counts.
		a.edit(`UPDATE pins SET seen_as = approved_as, approved = '', bytes = 0, approved_as = NULL WHERE approved <> ''`)
		a.run("exec", "-e", sendMail("attack")).want(4)
	},
}

func (a *adversary) id() string { return a.waits.Approval.ID }

// sameStore returns the setting with which the configuration of another directory uses the store of this one.
func (a *adversary) sameStore() string {
	return "store: {url: " + quoted("sqlite:"+filepath.Join(a.dir, "data", "harness.db")) + "}\n"
}

// resume resumes the run of the call. If the approval is invalid, the run waits again, for a new request or the same one.
func (a *adversary) resume() {
	a.t.Helper()
	a.run("runs", "resume", a.waits.RunID)
}

// approveByHand writes the decision of the command approvals approve into the database, without a signature.
func (a *adversary) approveByHand() {
	a.t.Helper()
	a.edit(`UPDATE approvals SET status = 'approved', decided = created + 1000000, decided_by = 'local', remember = 1 WHERE id = ?`, a.id())
}

func (a *adversary) post(address, token, body string) (status int, answer string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestAgentApprovesNothing has an agent with a shell of the same user try to approve its own call. At the end, a person approves the call.
func TestAgentApprovesNothing(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *adversary {
		f := setup(t)
		f.asking()
		f.confirmed()
		a := &adversary{fixture: f, config: f.read("harness.yaml")}
		a.earlier = f.waiting("earlier")
		f.atKeyboard([]string{passphrase}, "approvals", "approve", "--remember", a.earlier.Approval.ID).want(0)
		a.waits = f.waiting("attack")
		if text, err := json.Marshal(a.waits); err != nil || strings.Contains(string(text), "harness ") {
			t.Errorf("the agent is given %s", text)
		}
		return a
	}
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		a := begin(t)
		environ := a.environ
		for name, attack := range commands {
			t.Run(name, func(t *testing.T) {
				a.t, a.environ = t, slices.Clone(environ)
				if attack(a); a.mails() != 1 {
					t.Fatal("the mail is sent")
				}
			})
		}
	})
	for name, attack := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin(t)
			if attack(a); a.mails() != 1 {
				t.Fatal("the mail is sent")
			}
		})
	}
	t.Run("the person", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.asking()
		f.confirmed()
		a := &adversary{fixture: f, waits: f.waiting("wanted")}
		a.approveByHand()
		a.resume()
		var all struct{ Approvals []approval.Request }
		f.run("approvals", "list", "--json").want(0).value(&all)
		if len(all.Approvals) != 1 || all.Approvals[0].ID == a.id() {
			t.Fatalf("%+v waits", all.Approvals)
		}
		f.atKeyboard([]string{passphrase}, "approvals", "approve", all.Approvals[0].ID).want(0)
		if f.mails() != 1 {
			t.Errorf("%d mails", f.mails())
		}
	})
}

// TestPagePassphrase checks that the page accepts the passphrase for one decision, and refuses every passphrase after several wrong ones.
func TestPagePassphrase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.confirmed()
	post := func(page, typed string) string {
		posted, err := http.PostForm(page, url.Values{"decision": {"approve"}, "passphrase": {typed}})
		if err != nil {
			t.Error(err)
			return ""
		}
		defer posted.Body.Close()
		text, _ := io.ReadAll(posted.Body)
		return string(text)
	}
	var typed []string
	g := f.gateway(&mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			shown := ""
			for _, text := range typed {
				shown = post(r.Params.URL, text)
			}
			if !strings.Contains(shown, "It is approved") {
				return &mcp.ElicitResult{Action: "cancel", Content: map[string]any{}}, nil
			}
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	for i, c := range []struct {
		typed  []string
		status string
	}{
		{[]string{"wrong", passphrase}, "succeeded"},
		{[]string{"a", "b", "c", "d", "e", passphrase}, "waiting_approval"},
	} {
		typed = c.typed
		var out gatewayRun
		if text, _ := g.call("execute_code", map[string]any{"code": sendMail(fmt.Sprint(i))}, &out); out.Status != c.status || f.mails() != 1 {
			t.Errorf("%q: %+v, %d mails\n%s\n%s", c.typed, out, f.mails(), text, g.stderr)
		}
	}
}

// TestSignedOrigins checks that the person who signs an approval sees the origins of values, and that the signature covers them. If the request shows other
// origins than the call has, the approval is void.
func TestSignedOrigins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.write("harness.yaml", strings.Replace(f.read("harness.yaml"), "mailer__send,", "mailer__send, args: {$.to: {from: [code]}},", 1))
	f.confirmed()
	out := f.waiting("one")
	const is = "$.to is in the program's text alone"
	if shown := f.run("approvals", "show", out.Approval.ID).want(0).stdout; !strings.Contains(shown, is) {
		t.Errorf("shown: %s", shown)
	}
	f.atKeyboard([]string{passphrase}, "approvals", "approve", out.Approval.ID).want(0)
	if f.mails() != 1 {
		t.Errorf("%d mails", f.mails())
	}
	out = f.waiting("two")
	f.edit(`UPDATE approvals SET request = replace(request, 'is in the program''s text alone', 'comes from user') WHERE id = ?`, out.Approval.ID)
	if shown := f.run("approvals", "show", out.Approval.ID).want(0).stdout; !strings.Contains(shown, "$.to comes from user") {
		t.Errorf("shown: %s", shown)
	}
	f.atKeyboard([]string{passphrase}, "approvals", "approve", out.Approval.ID).want(4)
	if f.mails() != 1 {
		t.Errorf("%d mails after a person was told another origin", f.mails())
	}
}

// TestRemovedServerIsReviewedAgain checks that removing a server deletes the approvals of its definitions. A server of the same name is reviewed again, even if
// its definitions are the same.
func TestRemovedServerIsReviewedAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.confirmed()
	config := f.read("harness.yaml") + "quarantine: new\n"
	f.write("harness.yaml", config)
	f.run("servers", "test", "mailer")
	f.atKeyboard([]string{"y", passphrase}, "servers", "review", "mailer", "--approve-all").want(0)
	f.run("exec", "-e", sendMail("one")).want(4)
	f.run("servers", "remove", "mailer").want(0)
	f.write("harness.yaml", config)
	f.run("exec", "-e", sendMail("two")).want(1)
}

// TestReplacedKeyShows checks the one attack that remains possible, replacing the key: doctor reports it, because the audit log has the fingerprint of the old
// key.
func TestReplacedKeyShows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.asking()
	f.confirmed()
	key := filepath.Join(f.dir, "data", approval.ConfirmKeyFile)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	out := f.waiting("one")
	r := f.atKeyboard([]string{passphrase}, "approvals", "approve", out.Approval.ID).want(2)
	if !strings.Contains(r.stderr, approval.ConfirmKeyFile) {
		t.Errorf("without the file: %s", r.stderr)
	}
	f.edit(`DELETE FROM confirmations`)
	if r := f.run("doctor"); !strings.Contains(r.stdout, "it was removed") {
		t.Errorf("removed: %s", r.stdout)
	}
	sealed, err := approval.NewSealedKey("my own passphrase", f.world(nil, "", nil, nil).Now())
	if err == nil {
		err = sealed.Save(filepath.Dir(key), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := f.run("doctor"); !strings.Contains(r.stdout, "it was replaced") {
		t.Errorf("replaced: %s", r.stdout)
	}
}

// TestPassphraseOfSkills: once there is a passphrase, only a person at a terminal approves a skill from elsewhere.
func TestPassphraseOfSkills(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.confirmed()
	f.write("from/pdf/SKILL.md", skillHead("pdf", "x"))
	var added addedJSON
	f.run("skills", "add", "./from", "--json").want(0).value(&added)
	digest := added.Skills[0].Digest
	f.run("skills", "review", "pdf", "--approve", digest).want(2)
	f.runIn(t.Context(), passphrase+"\n", "skills", "review", "pdf", "--approve", digest).want(2)
	f.atKeyboard([]string{"wrong", "wrong", "wrong"}, "skills", "review", "pdf", "--approve", digest).want(2)
	if r := f.run("skills", "list").want(0); strings.Contains(r.stdout, "pdf") {
		t.Errorf("approved without a person: %s", r.stdout)
	}
	f.atKeyboard([]string{passphrase}, "skills", "review", "pdf", "--approve", digest).want(0)
	if r := f.run("skills", "list").want(0); !strings.Contains(r.stdout, "pdf") {
		t.Errorf("skills list: %s", r.stdout)
	}
}
