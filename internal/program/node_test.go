package program

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// needNode returns the path of Node.js, which executes compiled programs in these tests. Without Node.js the tests fail if CI is set, and are skipped
// otherwise.
func needNode(t testing.TB) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node is missing: install Node.js 20 or later (https://nodejs.org)")
	}
	return node
}

func missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// runNode sends inputs to a script as lines of JSON, and decodes one answer for each.
func runNode[In, Out any](t *testing.T, inputs []In, script string, args ...string) []Out {
	t.Helper()
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	encoder.SetEscapeHTML(false)
	for _, input := range inputs {
		if err := encoder.Encode(input); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), needNode(t), append([]string{script}, args...)...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s", script, err, stderr.String())
	}
	var outputs []Out
	for decoder := json.NewDecoder(bytes.NewReader(stdout)); decoder.More(); {
		var out Out
		if err := decoder.Decode(&out); err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, out)
	}
	if len(outputs) != len(inputs) {
		t.Fatalf("node %s gave %d answers to %d inputs\n%s", script, len(outputs), len(inputs), stderr.String())
	}
	return outputs
}

// executed is the result of a program in Node.js.
type executed struct {
	Value   any
	Message string
	Stack   string
}

func execute(t *testing.T, programs ...frame.Program) []executed {
	t.Helper()
	type input struct {
		Program frame.Program `json:"program"`
	}
	inputs := make([]input, len(programs))
	for i, p := range programs {
		inputs[i].Program = p
	}
	return runNode[input, executed](t, inputs, "testdata/execute.js")
}
