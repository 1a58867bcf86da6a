package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

var fileBlock = regexp.MustCompile("(?s)```(?:python|typescript|yaml)\n(?:#|//) (\\S+)\n(.*?)```")

// TestAPIExamples executes the commands in docs/API_EXAMPLES.md in one shell, as a new user, with the files that the document shows. The server is started
// where the document starts it. The model is a fake.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	f, _ := newUser(t)
	const name = "docs/API_EXAMPLES.md"
	text, documented := document(t, name, 40)
	for _, file := range fileBlock.FindAllStringSubmatch(text, -1) {
		f.write(file[1], file[2])
	}
	f.environ = append(f.environ, "PATH="+f.commands(t)+":"+os.Getenv("PATH"))
	f.modelled(shopkeeper)
	if !strings.Contains(text, "```sh\nharness serve\n```") {
		t.Fatal("the document does not say how the server is started")
	}
	server := f.serve()
	var all []step
	for _, s := range documented {
		program, _, _ := strings.Cut(s.command, " ")
		if _, err := exec.LookPath(program); err != nil && (program == "python3" || program == "node" || program == "curl") {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", program)
			}
			t.Logf("%s:%d is not run: install %s", name, s.line, program)
			continue
		}
		s.command = strings.ReplaceAll(s.command, "http://127.0.0.1:3000", server.url)
		all = append(all, s)
	}
	typeIn(t, name, "bash", f.dir, f.environ, all)
}

// commands returns a directory for PATH with the program harness, and with a node that runs a compiled copy of the TypeScript client, because Node.js before
// 22.18 does not run TypeScript.
func (f *fixture) commands(t *testing.T) string {
	t.Helper()
	text := f.read("client.ts")
	made := api.Transform(text, api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule, Target: api.ES2022})
	if len(made.Errors) > 0 {
		t.Fatalf("client.ts: %v", made.Errors)
	}
	f.write("client.mjs", string(made.Code))
	bin := filepath.Join(f.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary(t), filepath.Join(bin, "harness")); err != nil {
		t.Fatal(err)
	}
	if node, err := exec.LookPath("node"); err == nil {
		wrapper := fmt.Sprintf("#!/bin/sh\nexec %q \"${1%%.ts}.mjs\"\n", node)
		if err := os.WriteFile(filepath.Join(bin, "node"), []byte(wrapper), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// shopkeeper is the fake model for the examples.
func shopkeeper(r fake.Request) fake.Reply {
	switch {
	case r.Last().Role == "tool":
		return fake.Reply{Text: "42 orders came in today."}
	case strings.Contains(r.Last().Text, "orders"):
		return code("console.log('counting'); return { orders: 42 }")
	}
	return fake.Reply{Text: "Hello there."}
}

// TestAPIExamplesTypes checks that the TypeScript code in the document has no type errors.
func TestAPIExamplesTypes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/API_EXAMPLES.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range fileBlock.FindAllStringSubmatch(string(raw), -1) {
		if strings.HasSuffix(file[1], ".ts") {
			if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tsc := filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "bin", "tsc")
	out, err := exec.Command("node", tsc, "--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
		"--lib", "es2022,dom,dom.iterable", "--typeRoots", dir, "--pretty", "false", filepath.Join(dir, "client.ts")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
