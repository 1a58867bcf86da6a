package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/eval"
	"mcp-code-exec-harness/internal/testing/fake"
)

// evaluated runs harness eval --json and returns its report.
func (f *fixture) evaluated(code int, args ...string) (r eval.Report) {
	f.t.Helper()
	f.run(append([]string{"eval", "--json"}, args...)...).want(code).value(&r)
	return r
}

// small writes a suite without servers, of three tasks that add numbers.
func (f *fixture) small() {
	f.t.Helper()
	f.write("small/harness/harness.yaml", "model: {prices: {'*': {input: 1000, output: 1000}}}\n")
	f.write("small/suite.yaml", "name: small\nmodels: [{name: one, recording: recordings/one.json}]\n")
	f.write("small/tasks/sums.yaml", `
- {name: sum, prompt: What is 1 + 2?, checks: [{equals: 3}]}
- {name: words, prompt: What is 2 + 2 in words?, checks: [{matches: (?i)four}]}
- name: file
  prompt: Copy /workspace/in.txt to /workspace/out.txt.
  files: [in.txt]
  checks: [{program: "return (await fs.readFile('/workspace/out.txt')) === 'text' || 'out.txt has another text'"}]
`)
	f.write("small/in.txt", "text")
}

// adder is a model that answers the tasks of the suite small.
func adder(r fake.Request) fake.Reply {
	reply := func(text string) fake.Reply { return fake.Reply{Text: text, Usage: fake.Usage{Input: 100, Output: 10}} }
	switch first := r.Messages[0].Text; {
	case strings.HasPrefix(first, "What is 1"):
		return reply("3")
	case strings.HasPrefix(first, "What is 2"):
		return reply("It is Four.")
	case r.Last().Role == "tool":
		return reply("Done.")
	}
	return code("await fs.writeFile('/workspace/out.txt', await fs.readFile('/workspace/in.txt')); return 'copied'")
}

// TestEvalRecord records a model over its wire format, and plays the recording without a model.
func TestEvalRecord(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.small()
	if r := f.run("eval", "small").want(2); !strings.Contains(r.stderr, "--record DIR") {
		t.Errorf("without the recording: %s", r.stderr)
	}
	if r := f.run("eval", "small", "--record", "small/recordings").want(2); !strings.Contains(r.stderr, "API_KEY") {
		t.Errorf("without a model: %s", r.stderr)
	}
	before := len(f.environ)
	server := f.modelledAs(adder)
	asked := f.evaluated(0, "small", "--record", "small/recordings", "--min-success", "1")
	requests := len(server.Requests())
	server.Close()
	f.environ = f.environ[:before]
	played := f.evaluated(0, "small", "--min-success", "1")
	if asked.Models[0].Recorded || !played.Models[0].Recorded || requests != 4 {
		t.Errorf("%d requests, recorded: %t, %t", requests, asked.Models[0].Recorded, played.Models[0].Recorded)
	}
	for i := range asked.Results {
		asked.Results[i].TimeMS, played.Results[i].TimeMS = 0, 0
	}
	if diff := cmp.Diff(asked.Results, played.Results); diff != "" {
		t.Errorf("the played trials differ from the recorded ones (-asked +played):\n%s", diff)
	}
	if cost := asked.Models[0].TotalUSD; cost == nil || *cost < 0.44 || *cost > 0.46 { // 420 tokens read and 40 written
		t.Errorf("the cost is %v", cost)
	}
	text := f.read("small/recordings/one.json")
	for _, want := range []string{"What is 1 + 2?", "You do tasks with tools", "execute_code", "copied"} {
		if !strings.Contains(text, want) {
			t.Errorf("the recording has no %q", want)
		}
	}
	// Repetitions of a recording are no new observations.
	again := f.evaluated(0, "small", "--repeat", "3", "--task", "sum")
	if m := again.Models[0]; m.Trials != 3 || m.Success.Mean != 1 || m.Success.N != 1 || m.Success.Low > 0.21 {
		t.Errorf("played three times: %+v", m)
	}
	if r := f.run("eval", "--copy", "small").want(2); !strings.Contains(r.stderr, "exists") {
		t.Errorf("copied over a folder: %s", r.stderr)
	}
	if r := f.run("eval", "small", "--model", "../one").want(2); !strings.Contains(r.stderr, "not the name of a model") {
		t.Errorf("a name that is a path: %s", r.stderr)
	}
	// A recording that is named by its file.
	if r := f.evaluated(0, "small", "--model", "small/recordings/one.json", "--task", "sum"); r.Models[0].Name != "one" || r.Models[0].Succeeded != 1 {
		t.Errorf("by file: %+v", r.Models)
	}
}

// TestEvalKinds checks the kinds of failures, the thresholds and the comparison with an earlier report, with a model that is asked.
func TestEvalKinds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.small()
	var mu sync.Mutex
	worse := false
	server := f.modelledAs(func(r fake.Request) fake.Reply {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !worse:
			return adder(r)
		case strings.HasPrefix(r.Messages[0].Text, "What is 1"):
			return fake.Reply{Text: "4", Usage: fake.Usage{Input: 100, Output: 10}}
		case strings.HasPrefix(r.Messages[0].Text, "What is 2"):
			return fake.Reply{Status: 400, Message: "no"}
		}
		return code("return 'again'")
	})
	f.evaluated(0, "small", "--model", "one", "--record", "before", "--report", "before.json", "--report", "before.md")
	if text := f.read("before.md"); !strings.Contains(text, "| one | 3 of 3, 100 % | 44 % to 100 % |") {
		t.Errorf("the report is\n%s", text)
	}
	mu.Lock()
	worse = true
	mu.Unlock()
	f.write("small/suite.yaml", "name: small\nmodels: [{name: one}]\nbudget: {turns: 3}\nthresholds: {minSuccess: 0.5}\n")
	r := f.run("eval", "small", "--record", "now", "--compare", "before.json", "--max-worse", "2", "--max-cost", "0.3").want(1)
	for _, want := range []string{
		"| one | sum | check | the answer is not 3: $ differs |", "| one | file | limit |", "| one | words | model |",
		"one succeeded in 0 % of trials, and 50 % are wanted", "3 tasks of one are worse than in the compared report, and at most 2 may be",
		"100 % → 0 %", "| one | sum | 1/1 | 0/1 | check |", "Better: no task.", "one cost $", "task words is not recorded",
	} {
		if !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	// The cost of the first trial is beyond the threshold, so no further one is started.
	asked := len(server.Requests())
	if r := f.evaluated(1, "small", "--model", "one", "--max-cost", "0.01", "-j", "1", "--task", "file", "--repeat", "3"); !r.Partial || r.Trials != 1 || len(server.Requests()) != asked+3 {
		t.Errorf("%d of %d trials, %d requests", r.Trials, r.Planned, len(server.Requests())-asked)
	}
	f.write("small/harness/harness.yaml", "mcpServers: {gone: {command: /no/such/program}}\n")
	if r := f.run("eval", "small").want(3); !strings.Contains(r.stderr, "server gone") {
		t.Errorf("without its server: %s", r.stderr)
	}
}

// TestEvalInterrupted checks that an interrupt ends with the report of the trials so far.
func TestEvalInterrupted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.small()
	f.write("small/suite.yaml", "name: small\n")
	ctx, interrupt := context.WithCancelCause(t.Context())
	f.modelledAs(func(r fake.Request) fake.Reply {
		if strings.HasPrefix(r.Messages[0].Text, "What is 2") {
			interrupt(cli.Signal{Signal: syscall.SIGINT})
			return fake.Reply{Wait: make(chan struct{})}
		}
		return adder(r)
	})
	r := f.runIn(ctx, "", "eval", "small", "--model", "one", "-j", "1", "--report", "partial.json").want(130)
	if !strings.Contains(r.stdout, "**Partial**: 1 of 3 trials ended.") || !strings.Contains(f.read("partial.json"), `"partial": true`) {
		t.Errorf("it says\n%s%s", r.stdout, r.stderr)
	}
}

const renamedServer = "__renamed-server"

// serveRenamed is a server of the demo in which the field owner has another name.
func serveRenamed(name, dir string) error {
	from, to := io.Pipe()
	go func() { to.CloseWithError(servers.Serve(context.Background(), name, dir, os.Stdin, to)) }()
	text := make([]byte, 1<<20)
	for {
		n, err := from.Read(text)
		if _, failed := os.Stdout.Write(bytes.ReplaceAll(text[:n], []byte("owner"), []byte("manager"))); failed != nil {
			return failed
		}
		if err != nil {
			return nil // the client is gone
		}
	}
}

// TestEvalRegressions plants changes of a prompt, of a tool and of limits into the starter suite, and checks that its recordings find them.
func TestEvalRegressions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	prompt, err := os.ReadFile("../agent/prompts/system.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("../eval/starter/harness/harness.yaml")
	if err != nil {
		t.Fatal(err)
	}
	own = bytes.Replace(own, []byte("\nmodel:\n"), []byte("\nmodel:\n  prompts: prompts\n"), 1)
	for _, tc := range []struct {
		name  string
		plant func(suite string)
		kinds map[string]string // tasks, and the kinds of their failures with the model steady, or hasty
		want  string            // part of the reason
	}{
		{
			"the system prompt", func(suite string) {
				f.write(suite+"/harness/harness.yaml", string(own))
				f.write(suite+"/harness/prompts/system.md", strings.Replace(string(prompt), "Discover first.", "Discover what you need.", 1))
			},
			map[string]string{"account-manager": "recording"},
			`turn 1: the system prompt differs in line 5: recorded "1. Discover first.`,
		},
		{
			"the prompt of tasks", func(suite string) {
				f.write(suite+"/harness/harness.yaml", string(own))
				f.write(suite+"/harness/prompts/task.md", "Be brief. {{.Task}}")
			},
			map[string]string{"account-manager": "recording"},
			`turn 1: message 1, the text of the user differs in line 1: recorded "Who is the account manager`,
		},
		{
			"a tool", func(suite string) {
				f.write(suite+"/harness/harness.yaml", strings.Replace(string(own), "[__demo-server, crm,", "["+renamedServer+", crm,", 1))
			},
			map[string]string{"account-manager": "recording"},
			"the result of search_tools differs in line 3: recorded \"...email: string, phone: string, company: string, segment: string, region: string, owner:",
		},
		{
			"answers for hasty, which reads no definitions", func(suite string) {
				f.write(suite+"/harness/harness.yaml", strings.Replace(string(own), "[__demo-server, crm,", "["+renamedServer+", crm,", 1))
			},
			map[string]string{"account-manager": "recording", "denied-post": ""},
			`the result of execute_code differs in line 2: recorded "\"Tariq Cohen\""`,
		},
		{
			"the limit of turns", func(suite string) {
				f.write(suite+"/harness/harness.yaml", strings.Replace(string(own), "maxTurns: 12", "maxTurns: 2", 1))
			},
			map[string]string{"account-manager": "limit"},
			"the budget of 2 turns (model.maxTurns) is used up",
		},
		{
			"the limit of calls", func(suite string) {
				f.write(suite+"/harness/harness.yaml", string(own)+"\nsandbox: {maxCalls: 1}\n")
			},
			map[string]string{"denied-post": "recording"},
			"sandbox.maxCalls",
		},
		{
			"the policy", func(suite string) {
				f.write(suite+"/harness/harness.yaml", strings.Replace(string(own), "action: deny", "action: ask", 1))
			},
			map[string]string{"denied-post": "approval"},
			"waits for an approval",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			suite := strings.ReplaceAll(tc.name, " ", "-")
			f.run("eval", "--copy", suite).want(0)
			if err := os.MkdirAll(filepath.Join(f.dir, suite, "harness", "prompts"), 0o700); err != nil {
				t.Fatal(err)
			}
			tc.plant(suite)
			args := []string{suite, "--model", "steady"}
			if strings.Contains(tc.name, "hasty") {
				args[2] = "hasty"
			}
			for name := range tc.kinds {
				args = append(args, "--task", name)
			}
			r := f.evaluated(1, args...)
			got, reasons := map[string]string{}, ""
			for _, trial := range r.Results {
				got[trial.Task] = trial.Kind
				reasons += trial.Reason + "\n"
			}
			if diff := cmp.Diff(tc.kinds, got); diff != "" || !strings.Contains(reasons, tc.want) {
				t.Errorf("kinds (-want +got):\n%s\nreasons, want %q:\n%s", diff, tc.want, reasons)
			}
		})
	}
}

// TestEvalStarter works the whole starter suite with both recordings and compares the report, all but its times, with a golden file. So the report is the
// same each time.
func TestEvalStarter(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var stdout, stderr bytes.Buffer
	cmd := f.process("eval", "starter")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	got, times, _ := strings.Cut(stdout.String(), "\n## Measured times\n")
	if n := len(regexp.MustCompile(`(?m)^\| (steady|hasty) \| \d+ \(\d+ to \d+\) \|$`).FindAllString(times, -1)); n != 2 {
		t.Errorf("the times are\n%s", times)
	}
	golden := filepath.Join("testdata", "eval", "starter.golden.md")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the report differs; if it should, run TestEvalRecordings and then this test with -update (-want +got):\n%s", diff)
	}
	if strings.Contains(got, "recording |") {
		t.Error("recordings do not match")
	}
}
