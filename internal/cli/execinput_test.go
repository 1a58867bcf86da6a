package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/cli"
)

// TestExecInputPiped pipes rows without a file name. --input-format gives their format; without it, the error of a program that expects rows suggests the flag.
func TestExecInputPiped(t *testing.T) {
	t.Parallel()
	f := setup(t)
	file := f.write("rows", "a,b\n1,2\n3,4\n")
	call := func(args ...string) *result {
		t.Helper()
		stdin, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		var stdout, stderr strings.Builder
		w := f.world(args, "", &stdout, &stderr)
		w.Stdin = stdin
		return &result{t, w.Args, cli.Main(t.Context(), w), stdout.String(), stderr.String()}
	}
	const program = "return (await input.toArray()).length"
	if r := call("exec", "-e", program, "--input-format", "csv").want(0); r.stdout != "2\n" {
		t.Errorf("got %q", r.stdout)
	}
	if r := call("exec", "-e", program).want(1); !strings.Contains(r.stderr, "--input-format csv") {
		t.Errorf("got %s", r.stderr)
	}
	if r := call("exec", "-e", "return 1", "--input-format", "csv").want(2); !strings.Contains(r.stderr, "--input FILE") {
		t.Errorf("got %s", r.stderr)
	}
}

// TestExecInput checks that a program gets its input in the given format, with tokens for personal data, and that a replay needs the same file.
func TestExecInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("a.csv", "name,mail\nAda,ada@example.com\n\"B, C\",bob@example.com\n")
	f.write("b.csv", "name,mail\nAda,eve@example.com\n")
	f.write("a.json", `{"list": [1, {"mail": "ada@example.com"}]}`)
	f.write("a.ndjson", "{\"n\": 1}\n{\"n\": 2}\n")
	f.write("a.log", "one\ntwo\n")
	const rows = `const rows = []; for await (const row of input) rows.push(row); console.log(rows[0].mail); return [rows.length, rows[1].name, input.name]`
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--input", "a.csv", "-e", `return input.toArray()`}, `[{"name":"Ada","mail":"ada@example.com"},{"name":"B, C","mail":"bob@example.com"}]`},
		{[]string{"--input", "a.csv", "-e", `return await pii.kind([...input][1].mail)`}, `"EMAIL"`},
		{[]string{"--input", "a.json", "-e", `return [input.list[1].mail, await pii.kind(input.list[1].mail), input === input]`}, `["ada@example.com","EMAIL",true]`},
		{[]string{"--input", "a.ndjson", "-e", `let n = 0; for (const row of input) n += row.n; return n`}, `3`},
		{[]string{"--input", "a.log", "-e", `return input`}, `"one\ntwo\n"`},
		{[]string{"--input", "a.log", "--input-format", "lines", "-e", `for await (const line of input) return line`}, `"one"`},
		{[]string{"-e", `return typeof input`}, `"undefined"`},
	} {
		var got struct{ Output json.RawMessage }
		f.run(append([]string{"exec", "--json"}, c.args...)...).want(0).value(&got)
		var compact bytes.Buffer
		if err := json.Compact(&compact, got.Output); err != nil || compact.String() != c.want {
			t.Errorf("%q: %s, want %s", c.args, compact.String(), c.want)
		}
	}
	r := f.run("exec", "--input", "a.csv", "--record", "rec.json", "-e", rows).want(0)
	if !strings.Contains(r.stderr, "pii_1e@d1.pii.invalid") {
		t.Errorf("the program was given %s", r.stderr)
	}
	if text := f.read("rec.json"); strings.Contains(text, "ada@") || strings.Contains(text, "Ada") {
		t.Errorf("the recording has the input:\n%s", text)
	}
	f.run("exec", "--replay", "rec.json", "--input", "a.csv").want(0)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--replay", "rec.json"}, "give the same file again"},
		{[]string{"--replay", "rec.json", "--input", "b.csv"}, "another file"},
		{[]string{"--input", "none.csv", "-e", "return 1"}, "none.csv"},
		{[]string{"--input", "a.log", "--input-format", "json", "-e", "return input"}, "no JSON at line 1"},
		{[]string{"--input", "a.log", "--input-format", "xml", "-e", "return input"}, "xml"},
		{[]string{"--input-format", "csv", "-e", "return 1"}, "--input-format"},
	} {
		if r := f.run(append([]string{"exec"}, c.args...)...).want(2); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: %s, want %q", c.args, r.stderr, c.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(f.dir, ".local", "share", "harness", "inputs", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("copies of inputs are left: %v %v", left, err)
	}
}

// TestExecInputOfPersonalData checks that an input with more values than pii.maxTokens ends with an error after the rows before the limit.
func TestExecInputOfPersonalData(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var text strings.Builder
	text.WriteString("mail\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, "person%d@example.com\n", i)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "people.csv"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f.environ = append(f.environ, "HARNESS_PII_MAX_TOKENS=30000")
	r := f.run("exec", "--input", "people.csv", "-e", `let n = 0
try { for await (const row of input) n++ } catch (e) { return [n > 0, e.name, e.message] }`).want(0)
	for _, want := range []string{"true", "LimitError", "pii.maxTokens", "fewer rows"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("got %s, want %q", r.stdout, want)
		}
	}
	r = f.run("exec", "--input", "people.csv", "-e", `for await (const row of input);`).want(1)
	if !strings.Contains(r.stderr, "the input has more personal data than tokens can stand for") || strings.Contains(r.stderr, "hint:") {
		t.Errorf("got %s", r.stderr)
	}
}
