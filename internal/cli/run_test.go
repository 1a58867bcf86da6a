package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
)

// modelled starts a fake model server and configures it as the model.
func (f *fixture) modelled(script fake.Script) *fake.Server {
	f.t.Helper()
	server := fake.Serve(script)
	f.t.Cleanup(server.Close)
	f.environ = append(f.environ, "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=test-model", "OPENAI_BASE_URL="+server.URL+"/v1")
	return server
}

// code returns a reply of the model that runs a program.
func code(program string) fake.Reply {
	input, err := json.Marshal(map[string]string{"code": program})
	if err != nil {
		panic(err)
	}
	return fake.Reply{Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 20}}
}

// TestRun checks a task whose first program fails: the model reads the error, corrects the program, and answers.
func TestRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := f.modelled(fake.Replies(
		code("const x = 1\nreturn x.y.z"),
		code("console.log('working'); await fs.writeFile('/workspace/a.txt', 'x'); return {total: 42}"),
		fake.Reply{Text: "The total is 42.", Usage: fake.Usage{Input: 200, Output: 5}},
	))
	r := f.run("run", "--json", "--session", "s1", "What is the total?")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	var got task.Task
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if got.Status != task.Succeeded || got.Text != "The total is 42." || string(got.Output) != `{"total":42}` || got.SessionID != "s1" ||
		len(got.Runs) != 2 || got.Usage.Turns != 3 || got.Usage.Tokens.Input != 400 {
		t.Errorf("got %+v", got)
	}
	second := string(server.Requests()[1].Raw)
	for _, want := range []string{"TypeError", "runtime", ":2:", "return x.y.z"} {
		if !strings.Contains(second, want) {
			t.Errorf("the second request does not have %q:\n%s", want, second)
		}
	}
	for _, want := range []string{"return x.y.z", "working", "fs.writeFile"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("the progress does not show %q:\n%s", want, r.stderr)
		}
	}
	if refused := server.Refused(); len(refused) > 0 {
		t.Errorf("the model server refused %q", refused)
	}
}

// TestRunShows checks that the progress shows a repeated request to the model with the reason, and the server of a call, and that the reason of a failed task
// is shown only once.
func TestRunShows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "model: {maxRetries: 1}\nmcpServers:\n  database: {command: "+quoted(self(t))+", args: [__demo-server, database, "+quoted(f.dir)+"]}\n")
	f.modelled(fake.Replies(
		fake.Reply{Status: 503},
		code("return (await tools.database.query('SELECT 1 AS n')).length"),
		fake.Reply{Status: 401}, fake.Reply{Status: 401},
	))
	r := f.run("run", "How many?").want(1)
	for _, want := range []string{"next attempt in", `call 1: database__query ["SELECT 1 AS n"]: `} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("the progress does not show %q:\n%s", want, r.stderr)
		}
	}
	if n := strings.Count(r.stderr, "Stopped after"); n != 1 {
		t.Errorf("the reason is said %d times:\n%s", n, r.stderr)
	}
}

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestRunMaxCost checks that --max-cost is refused if the price of the model is unknown.
func TestRunMaxCost(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := f.modelled(fake.Replies(fake.Reply{Text: "Hello."}))
	if r := f.run("run", "--max-cost", "0.1", "Say hello.").want(2); !strings.Contains(r.stderr, "model.prices") || len(server.Requests()) != 0 {
		t.Errorf("it says %s", r.stderr)
	}
	f.write("harness.yaml", "model: {prices: {'openai-compatible/test-model': {input: 1, output: 2}, 'openai/test-model': {input: 1, output: 2}}}\n")
	f.run("run", "--max-cost", "0.1", "Say hello.").want(0)
}

// TestRunWithoutModel checks that the error about a missing model names the settings.
func TestRunWithoutModel(t *testing.T) {
	t.Parallel()
	r := setup(t).run("run", "What is the total?")
	if r.code != 2 || !strings.Contains(r.stderr, "ANTHROPIC_API_KEY") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestRunRecordAndReplay replays a recorded task without its model. A replay with another task fails.
func TestRunRecordAndReplay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := f.modelled(fake.Replies(
		code("return 1 +"),
		code("console.log(Math.random()); await fs.writeFile('/workspace/a.txt', 'x'); return await fs.readFile('/workspace/a.txt')"),
		fake.Reply{Calls: []fake.Call{{Name: "search_tools", Input: `{"query":"customers"}`}}},
		fake.Reply{Text: "Done."},
	))
	recorded := f.run("run", "--json", "--record", "task.json", "Do it")
	if recorded.code != 0 {
		t.Fatalf("exit %d: %s", recorded.code, recorded.stderr)
	}
	asked := len(server.Requests())
	server.Close()
	replayed := f.run("run", "--json", "--replay", "task.json", "Do it")
	if replayed.code != 0 || len(server.Requests()) != asked {
		t.Fatalf("exit %d: %s", replayed.code, replayed.stderr)
	}
	var was, is task.Task
	if json.Unmarshal([]byte(recorded.stdout), &was) != nil || json.Unmarshal([]byte(replayed.stdout), &is) != nil {
		t.Fatalf("%s\n%s", recorded.stdout, replayed.stdout)
	}
	if is.Text != "Done." || string(is.Output) != string(was.Output) || strings.Join(is.Logs, "\n") != strings.Join(was.Logs, "\n") || len(is.Logs) == 0 {
		t.Errorf("replayed:\n%s\nrecorded:\n%s", replayed.stdout, recorded.stdout)
	}
	if list := f.run("tasks", "list", "--json"); strings.Count(list.stdout, `"id":`) != 1 {
		t.Errorf("the replay is among the tasks: %s", list.stdout)
	}
	if other := f.run("run", "--replay", "task.json", "Do something else"); other.code != 1 || !strings.Contains(other.stderr, "turn 1") {
		t.Errorf("exit %d: %s", other.code, other.stderr)
	}
}

// TestRunFromStandardInput reads a task from standard input. The file of --input is in the workspace, and the last line shows the command that continues the
// session.
func TestRunFromStandardInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := f.modelled(fake.Replies(
		code("return (await fs.readFile('/workspace/sales.csv')).length"), fake.Reply{Text: "Two lines."}, fake.Reply{Text: "Again."},
	))
	f.write("sales.csv", "region,total\nnorth,42\n")
	r := f.runIn(t.Context(), "How many lines are there?\n", "run", "--input", "sales.csv", "-").want(0)
	first := string(server.Requests()[0].Raw)
	if !strings.Contains(first, "How many lines are there?") || !strings.Contains(first, "/workspace/sales.csv") || !strings.Contains(string(server.Requests()[1].Raw), "22") {
		t.Errorf("the model is asked %s", first)
	}
	at := strings.Index(r.stderr, "harness run --session ")
	if at < 0 {
		t.Fatalf("no way on: %s", r.stderr)
	}
	session := strings.Fields(r.stderr[at:])[3]
	f.run("run", "--session", session, "And now?").want(0)
	if last := string(server.Requests()[2].Raw); !strings.Contains(last, "How many lines") || !strings.Contains(last, "And now?") {
		t.Errorf("the session does not go on: %s", last)
	}
	for _, args := range [][]string{{"run", "-"}, {"run", "--input", "-", "-"}, {"run", "--input", "none", "x"}} {
		f.runIn(t.Context(), " ", args...).want(2)
	}
}

// TestRunInterrupted checks that an interrupted command and tasks resume show the command that continues the conversation, and that this command works.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	server := f.modelled(func(r fake.Request) fake.Reply {
		if ctx.Err() == nil {
			interrupt(cli.Signal{Signal: os.Interrupt})
			return fake.Reply{Wait: make(chan struct{})} // no answer, until the request is cancelled
		}
		return fake.Reply{Text: "Forty-two."}
	})
	r := f.runIn(ctx, "", "run", "--session", "sales", "What is the total?").want(130)
	const command = `harness run --session sales "`
	if !strings.Contains(r.stderr, command) {
		t.Errorf("after the interrupt: %s", r.stderr)
	}
	id := strings.TrimSpace(f.run("tasks", "list", "--jq", ".tasks[0].id").want(0).stdout)
	if r := f.run("tasks", "resume", id).want(2); !strings.Contains(r.stderr, "(cancelled)") || !strings.Contains(r.stderr, command) {
		t.Errorf("tasks resume: %s", r.stderr)
	}
	f.run("run", "--session", "sales", "Go on.").want(0)
	requests := server.Requests()
	if last := string(requests[len(requests)-1].Raw); !strings.Contains(last, "What is the total?") || !strings.Contains(last, "Go on.") {
		t.Errorf("the conversation does not go on: %s", last)
	}
}
