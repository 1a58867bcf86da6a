package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"mcp-code-exec-harness/internal/eval"
	"mcp-code-exec-harness/internal/testing/fake"
)

// scriptedTurn is an answer of a scripted model. One field is set.
type scriptedTurn struct {
	Search  string
	Details []string
	Code    string
	Answer  string
}

// scripted returns the script of a server that answers as testdata/eval/dialogues.yaml says.
func scripted(t *testing.T) fake.Script {
	t.Helper()
	text, err := os.ReadFile("testdata/eval/dialogues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dialogues := map[string]map[string][]scriptedTurn{}
	if err := yaml.UnmarshalWithOptions(text, &dialogues, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	suite, err := eval.Load(eval.Starter())
	if err != nil {
		t.Fatal(err)
	}
	return func(r fake.Request) fake.Reply {
		for _, task := range suite.Tasks {
			if strings.HasPrefix(r.Messages[0].Text, strings.TrimSpace(task.Prompt)) {
				reply, err := answer(dialogues[task.Name], r)
				if err != nil {
					t.Errorf("%s of %s: %v", task.Name, r.Model, err)
					return fake.Reply{Status: 400, Message: err.Error()}
				}
				return reply
			}
		}
		t.Errorf("no task begins with %q", r.Messages[0].Text)
		return fake.Reply{Status: 400, Message: "unknown task"}
	}
}

func answer(of map[string][]scriptedTurn, r fake.Request) (reply fake.Reply, err error) {
	turns, own := of[r.Model]
	if !own {
		for _, turn := range of["steady"] {
			if turn.Search == "" && turn.Details == nil {
				turns = append(turns, turn)
			}
		}
	}
	n, read := 0, len(r.System)
	for _, m := range r.Messages {
		read += len(m.Text)
		for _, result := range m.Results {
			read += len(result.Text)
		}
		for _, c := range m.Calls {
			read += len(c.Input)
		}
		if m.Role == "assistant" {
			n++
		}
	}
	if n >= len(turns) {
		return reply, fmt.Errorf("there is no turn %d", n+1)
	}
	call := func(name string, input any) {
		raw, _ := json.Marshal(input)
		// The id is the same in every recording.
		reply.Calls = []fake.Call{{ID: fmt.Sprintf("call_%d", n+1), Name: name, Input: string(raw)}}
	}
	switch turn := turns[n]; {
	case turn.Search != "":
		call("search_tools", map[string]string{"query": turn.Search})
	case turn.Details != nil:
		call("get_tool_details", map[string][]string{"names": turn.Details})
	case turn.Code != "":
		call("execute_code", map[string]string{"code": turn.Code})
	default:
		reply.Text, err = filled(turn.Answer, r.Last())
	}
	written := len(reply.Text)
	for _, c := range reply.Calls {
		written += len(c.Input)
	}
	reply.Usage = fake.Usage{Input: read / 4, Output: written/4 + 1}
	return reply, err
}

// filled returns an answer with what the last program returned.
func filled(answer string, last fake.Message) (string, error) {
	var data any
	if len(last.Results) > 0 {
		_, output, _ := strings.Cut(last.Results[0].Text, "output:\n")
		d := json.NewDecoder(strings.NewReader(output))
		d.UseNumber()
		_ = d.Decode(&data) // of a program that failed there is nothing
	}
	tmpl, err := template.New("answer").Funcs(template.FuncMap{"json": func(v any) (string, error) {
		raw, err := json.Marshal(v)
		return string(raw), err
	}}).Parse(answer)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = tmpl.Execute(&b, data)
	return b.String(), err
}

// modelledAs starts a fake model server that has models of all names.
func (f *fixture) modelledAs(script fake.Script) *fake.Server {
	f.t.Helper()
	server := fake.Serve(script)
	f.t.Cleanup(server.Close)
	f.environ = append(f.environ, "HARNESS_MODEL_PROVIDER=compatible", "HARNESS_MODEL_BASEURL="+server.URL+"/v1")
	return server
}

// TestEvalRecordings records the models of the starter suite anew with -update, from a server that speaks the wire format of chat completions.
func TestEvalRecordings(t *testing.T) {
	if !*update {
		t.Skip("run with -update after a change of prompts, of the model's tools or of the suite")
	}
	f := setup(t)
	f.run("eval", "--copy", "suite").want(0)
	f.modelledAs(scripted(t))
	r := f.run("eval", "suite", "--record", "recorded", "-j", "1", "--report", "report.md")
	t.Log(r.stdout, r.stderr)
	if r.code != 0 && r.code != 1 {
		t.Fatalf("exit %d", r.code)
	}
	for _, name := range []string{"steady", "hasty"} {
		text := f.read(filepath.Join("recorded", name+".json"))
		if err := os.WriteFile(filepath.Join("..", "eval", "starter", "recordings", name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
