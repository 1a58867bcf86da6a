package program

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// needNode returns the path of Node.js, which executes compiled programs in these tests. Without it they fail where CI
// is set and are skipped elsewhere.
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

// needTypeScript returns a directory in whose node_modules npm's typescript is, installed once per user.
func needTypeScript(t *testing.T) string {
	t.Helper()
	needNode(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("testdata/typescript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(string(lock))
	dir := filepath.Join(cache, "harness-tests", "typescript-"+hex.EncodeToString(key[:6]))
	if isDir(filepath.Join(dir, "node_modules", "typescript")) {
		return dir
	}
	if _, err := exec.LookPath("npm"); err != nil {
		missing(t, "npm is missing: install Node.js with npm (https://nodejs.org)")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "typescript", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(fresh, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = fresh
	if out, err := install.CombinedOutput(); err != nil {
		missing(t, "npm ci in internal/program/testdata/typescript failed (is the npm registry reachable?): "+string(out))
	}
	// Another test process may have been faster; then its directory is as good.
	if err := os.Rename(fresh, dir); err != nil && !isDir(filepath.Join(dir, "node_modules", "typescript")) {
		t.Fatal(err)
	}
	return dir
}

// runNode feeds JSON lines to a script and decodes one answer for each.
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

// executed is what a program came to in Node.js.
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
