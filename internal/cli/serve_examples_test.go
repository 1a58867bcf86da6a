package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/npmtest"
)

var fileBlock = regexp.MustCompile("(?s)```(?:python|typescript|yaml)\n(?:#|//) (\\S+)\n(.*?)```")

// TestAPIExamples types everything in docs/API_EXAMPLES.md into one shell, with the files that it shows beside it.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the document is written for a Unix shell: run this test on Linux or macOS")
	}
	raw, err := os.ReadFile("../../docs/API_EXAMPLES.md")
	if err != nil {
		t.Fatal(err)
	}
	f := setup(t)
	for _, file := range fileBlock.FindAllStringSubmatch(string(raw), -1) {
		f.write(file[1], file[2])
	}
	f.addDemo("database", "mailer")
	f.environ = append(f.environ, `HARNESS_POLICY=[{tools: "mailer__send", action: ask}]`)
	f.modelled(shopkeeper)
	f.run("keys", "create", "--role", "admin").want(0)
	server := f.serve()
	bin := f.commands(t)

	const mark = "@@ end of step, code "
	script := "exec 2>&1\n"
	var all []step
	for _, s := range steps(string(raw)) {
		name, _, _ := strings.Cut(s.command, " ")
		if _, err := exec.LookPath(name); err != nil && (name == "python3" || name == "node" || name == "curl") {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", name)
			}
			t.Logf("docs/API_EXAMPLES.md:%d is not run: install %s", s.line, name)
			continue
		}
		all = append(all, s)
		script += fmt.Sprintf("%s\necho '%s'$?\n", strings.ReplaceAll(s.command, "http://127.0.0.1:3000", server.url), mark)
	}
	if len(all) < 40 {
		t.Fatalf("the document has only %d commands", len(all))
	}
	shell := exec.Command("bash", "-c", script)
	shell.Dir = f.dir
	shell.Env = append(f.environ, "PATH="+bin+":"+os.Getenv("PATH"))
	shown, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	rest := string(shown)
	for _, s := range all {
		got, after, found := strings.Cut(rest, mark)
		code, after, _ := strings.Cut(after, "\n")
		rest = after
		if !found || code != "0" {
			t.Fatalf("docs/API_EXAMPLES.md:%d: %s\nended with code %s:\n%s", s.line, s.command, code, got)
		}
		if !matches(s.want, got) {
			t.Errorf("docs/API_EXAMPLES.md:%d: %s\nshows\n%s\nthe document says\n%s", s.line, s.command, got, s.want)
		}
	}
}

// commands is a directory with harness, and with a node that also runs TypeScript where it is older than 22.18.
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

// shopkeeper is the model of the examples.
func shopkeeper(r fake.Request) fake.Reply {
	switch {
	case r.Last().Role == "tool":
		return fake.Reply{Text: "42 orders came in today."}
	case strings.Contains(r.Last().Text, "orders"):
		return code("console.log('counting'); return { orders: 42 }")
	}
	return fake.Reply{Text: "Hello there."}
}

// The TypeScript of the document has no type errors.
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
