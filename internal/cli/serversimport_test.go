package cli_test

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/cli"
)

// TestServersAddDocuments adds servers from documents in the formats of other clients and of the registry.
func TestServersAddDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"JSON", "", []string{"j", `{"command":"npx","args":["-y","x"]}`}, []string{"j:\n    command: npx\n    args: [-y, x]"}},
		{"JSON with names", "", []string{`{"mcpServers":{"a":{"command":"x"},"b":{"url":"https://y/mcp"}}}`}, []string{"a:\n    command: x", "b:\n    url: https://y/mcp"}},
		{"JSON on standard input", `{"mcpServers":{"a":{"command":"x"}}}`, []string{"-"}, []string{"a:\n    command: x"}},
		{"one of a file, by another name", "", []string{"z", "one.json"}, []string{"z:\n    command: x"}},
		{"file", "", []string{"two.json"}, []string{"a:\n    command: x", "b:\n    command: y"}},
		{"TOML", "", []string{"c.toml"}, []string{"c:\n    command: z"}},
		{"server.json", "", []string{"w", "server.json"}, []string{"w:\n    command: npx\n    args: [-y, '@a/b@1.0.0']"}},
		{"flags", "", []string{"j", "-e", "A=b", `{"command":"npx"}`}, []string{"env:\n      A: b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.write("one.json", `{"mcpServers": {"a": {"command": "x"}}} // mine`)
			f.write("two.json", `{"a": {"command": "x"}, "b": {"command": "y"}}`)
			f.write("c.toml", "[mcp_servers.c]\ncommand = \"z\"\n")
			f.write("server.json", `{"name": "io.a/b", "packages": [{"registryType": "npm", "identifier": "@a/b", "version": "1.0.0", "transport": {"type": "stdio"}}]}`)
			f.runIn(t.Context(), c.stdin, append([]string{"servers", "add"}, c.args...)...).want(0)
			plain := strings.NewReplacer(`"`, "", "'", "").Replace
			for _, want := range c.want {
				if text := f.read("harness.yaml"); !strings.Contains(plain(text), plain(want)) {
					t.Errorf("got\n%s\nwant in it\n%s", text, want)
				}
			}
			f.run("config", "show").want(0)
		})
	}
	f := setup(t)
	f.write("two.json", `{"a": {"command": "x"}, "b": {"command": "y"}}`)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"http:// and https://", []string{"k", "ftp://foo"}},
		{"http:// and https://", []string{"k", "http:/foo"}},
		{"has a space; use my-name", []string{"my name", "--", "x"}},
		{"harness servers add k -- npx -y x", []string{"k", "npx -y x"}},
		{"harness servers add NAME https://x", []string{"https://x"}},
		{"has no name", []string{`{"command": "x"}`}},
		{"not valid JSON", []string{"k", `{"command`}},
		{"there are 2 servers in it", []string{"k", "two.json"}},
		{"none.json", []string{"none.json"}},
	} {
		if r := f.run(append([]string{"servers", "add"}, c.args...)...).want(2); !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: %s, want %s", c.args, r.stderr, c.want)
		}
	}
}

// keyring stands for a system keyring that its user has unlocked.
type keyring struct {
	mu  sync.Mutex
	all map[string]string
}

func (k *keyring) Get(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if value, ok := k.all[name]; ok {
		return value, nil
	}
	return "", fs.ErrNotExist
}

func (k *keyring) Set(name, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[name] = value
	return nil
}

func (k *keyring) Delete(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, name)
	return nil
}

// TestSecretsOfTheCommandLine checks that secrets on a command line are never written into harness.yaml, that servers get them, and that they are deleted with
// their server.
func TestSecretsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer server.Close()
	f := setup(t)
	file := filepath.Join(f.dir, ".config", "harness", "secrets.json")
	if runtime.GOOS == "windows" {
		f.environ = append(f.environ, "APPDATA="+f.dir)
		file = filepath.Join(f.dir, "harness", "secrets.json")
	}
	secrets := []string{"s3cr3t-of-api", "s3cr3t-of-env", "s3cr3t-of-arg"}
	f.run("servers", "add", "api", server.URL, "--header", "Authorization: Bearer "+secrets[0], "--transport", "http").want(0)
	f.run("servers", "add", "cmd", "-e", "API_TOKEN="+secrets[1], "-e", "LEVEL=debug", "-e", "OTHER_TOKEN=${OTHER}", "--", "x", "--api-key", secrets[2]).want(0)
	text, kept := f.read("harness.yaml"), readFile(t, file)
	for _, secret := range secrets {
		if strings.Contains(text, secret) || !strings.Contains(kept, secret) {
			t.Errorf("%s: harness.yaml is\n%s\nkept is\n%s", secret, text, kept)
		}
	}
	for _, want := range []string{"Bearer ${secret:api.Authorization-", "LEVEL: debug", "${OTHER}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if r := f.run("config", "show").want(0); strings.Contains(r.stdout, "s3cr3t") || !strings.Contains(r.stdout, "${secret:api.") {
		t.Errorf("got %s", r.stdout)
	}
	f.run("servers", "test", "api").want(3) // the HTTP server speaks no MCP
	if got.Get("Authorization") != "Bearer "+secrets[0] {
		t.Errorf("the server got %q", got.Get("Authorization"))
	}
	f.run("servers", "add", "--replace", "api", server.URL).want(0)
	f.run("servers", "remove", "cmd").want(0)
	if kept := readFile(t, file); strings.Contains(kept, "s3cr3t") {
		t.Errorf("kept is %s", kept)
	}
	// A missing secret is an error of its server only.
	f.write("harness.yaml", "mcpServers:\n  x: {command: y, env: {T: '${secret:gone}'}}\n")
	if r := f.run("servers", "test", "x").want(3); !strings.Contains(r.stderr, "the secret gone is not kept on this machine") {
		t.Error(r.stderr)
	}

	// With a keyring, the file of secrets records only which configuration file a secret belongs to.
	ring := &keyring{all: map[string]string{}}
	f = setup(t)
	var stdout, stderr strings.Builder
	code := cli.Main(t.Context(), cli.World{
		Args: []string{"servers", "add", "x", "-e", "API_TOKEN=s3cr3t", "--", "y"}, Environ: f.environ, Dir: f.dir, Executable: self(t),
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Keyring: ring,
	})
	if code != 0 || len(ring.all) != 1 || !strings.Contains(stderr.String(), "the keyring of the system") {
		t.Errorf("%d, %d secrets, %s", code, len(ring.all), stderr.String())
	}
	if text := f.read(".config/harness/secrets.json"); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "harness.yaml") {
		t.Error(text)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestServersImport imports servers of other clients. --rewrite makes these clients use the harness, and --undo restores their files.
func TestServersImport(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if runtime.GOOS == "windows" {
		f.environ = append(f.environ, "APPDATA="+f.dir)
	}
	home := f.dir
	cursor := f.write(".cursor/mcp.json", `{
  // mine
  "mcpServers": {"github": {"command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef"}}, "docs": {"url": "https://d/mcp"}, "pg": {"command": "npx", "args": ["-y", "a"]}},
}
`)
	codex := f.write(".codex/config.toml", "model = \"m\" # mine\n[mcp_servers.github]\ncommand = \"npx\"\nargs = [\"-y\", \"gh\"]\n[mcp_servers.docs]\ncommand = \"other\"\n[mcp_servers.pg]\ncommand = \"npx\"\nargs = [\"-y\", \"b\"]\n")
	f.write(".gemini/settings.json", `{"mcpServers": {"broken": {"timeout": 1}}}`)
	f.dir = filepath.Join(home, "work")
	vscode := f.write(".vscode/mcp.json", `{"inputs": [{"id": "key"}], "servers": {"p": {"command": "x", "env": {"K": "${input:key}"}}}}`)
	before := map[string]string{cursor: readFile(t, cursor), codex: readFile(t, codex), vscode: readFile(t, vscode)}
	f.write("harness.yaml", "# mine\n")
	f.run("trust").want(0)

	dry := f.run("servers", "import", "--rewrite", "--dry-run").want(0)
	for path, text := range before {
		if readFile(t, path) != text || f.read("harness.yaml") != "# mine\n" {
			t.Fatalf("--dry-run changed a file:\n%s", dry.stdout)
		}
	}
	var done struct {
		Servers   []struct{ Server, Action, Client string }
		Rewritten []struct{ File, Backup string }
	}
	f.run("servers", "import", "--rewrite", "--json").want(0).value(&done)
	actions := map[string]string{}
	for _, s := range done.Servers {
		actions[s.Client+" "+s.Server] = s.Action
	}
	for server, want := range map[string]string{
		"cursor github": "add", "cursor docs": "add", "codex github": "same", "codex docs-codex": "add", "codex pg-codex": "add", "vscode p": "add", "gemini broken": "skip",
	} {
		if actions[server] != want {
			t.Errorf("%s: %q, want %q", server, actions[server], want)
		}
	}
	text := f.read("harness.yaml")
	for _, want := range []string{"# mine", "  github:", "  docs:", "  docs-codex:", "${secret:github.GITHUB_TOKEN-", "${KEY}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "ghp_") {
		t.Errorf("a secret is in\n%s", text)
	}
	if len(done.Rewritten) != 3 {
		t.Errorf("rewritten: %+v", done.Rewritten)
	}
	for path := range before {
		if text := readFile(t, path); !strings.Contains(text, "harness") || strings.Contains(text, "gh\"") || path == cursor && !strings.Contains(text, "// mine") {
			t.Errorf("%s is\n%s", path, text)
		}
	}
	// The harness does not import itself, and a second import changes nothing.
	f.run("servers", "import", "--rewrite").want(0)
	if again := f.read("harness.yaml"); again != text {
		t.Errorf("got\n%s", again)
	}
	f.write(".vscode/mcp.json", readFile(t, vscode)+"\n") // the user changes the file after --rewrite
	r := f.run("servers", "import", "--undo").want(1)
	if !strings.Contains(r.stderr, vscode+" was changed since") {
		t.Errorf("got %s", r.stderr)
	}
	for _, path := range []string{cursor, codex} {
		if readFile(t, path) != before[path] {
			t.Errorf("%s is\n%s", path, readFile(t, path))
		}
	}
}

// TestOlderServerAtAURL checks that a server at a URL without a transport is tried over SSE if it refuses streamable HTTP.
func TestOlderServerAtAURL(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hello"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()
	f := setup(t)
	f.run("servers", "add", "old", web.URL+"/sse").want(0)
	if r := f.run("servers", "test", "old").want(0); !strings.Contains(r.stdout, "sse") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("tools", "call", "old__hello").want(0); r.stdout != "hi\n" {
		t.Errorf("got %q", r.stdout)
	}
}

// TestServersImportPlaces checks that working directories are imported with their meaning in the client, that servers with different directories or
// environments count as different, that a note names the original name of a renamed server, and that settings.json of VS Code is read.
func TestServersImportPlaces(t *testing.T) {
	t.Parallel()
	f := setup(t)
	home := f.dir
	f.dir = filepath.Join(home, "project")
	f.write(".vscode/mcp.json", `{"servers": {
		"below": {"command": "x", "cwd": "${workspaceFolder}/test/mcp"}, "absolute": {"command": "x", "cwd": "/opt/x"}, "home": {"command": "x", "cwd": "~/y"}, "relative": {"command": "x", "cwd": "sub"},
		"db": {"command": "x", "env": {"URL": "one"}}, "plain": {"command": "x"}}}`)
	f.write(".vscode/settings.json", `{"editor.fontSize": 12, "mcp": {"servers": {"old": {"command": "y"}}}}`)
	f.write(".cursor/mcp.json", `{"mcpServers": {"db": {"command": "x", "env": {"URL": "one", "MODE": "write"}}, "below": {"command": "x", "cwd": "/elsewhere"}, "plain": {"command": "x"}}}`)
	f.write(".codex/config.toml", "[mcp_servers.vars]\ncommand = \"x\"\nenv_vars = [\"NOT_SET_ANYWHERE\"]\n")
	var out struct {
		Servers []struct {
			Server, Action, Client string
			Notes                  []string
		}
	}
	f.run("servers", "import", "--json").want(0).value(&out)
	got := map[string]string{}
	for _, s := range out.Servers {
		got[s.Client+" "+s.Server] = s.Action
		for _, note := range s.Notes {
			if strings.Contains(note, "another client") && !strings.HasSuffix(note, "a different "+strings.Split(s.Server, "-")[0]) {
				t.Errorf("%s: %s", s.Server, note)
			}
		}
	}
	for what, action := range map[string]string{
		"cursor db": "add", "vscode db-vscode": "add", "cursor below": "add", "vscode below-vscode": "add", "cursor plain": "add", "vscode plain": "same", "vscode old": "add", "codex vars": "add",
	} {
		if got[what] != action {
			t.Errorf("%s: %q, want %s in %v", what, got[what], action, got)
		}
	}
	var shown []struct{ Key, Value string }
	f.run("config", "show", "--json").want(0).value(&shown)
	values := map[string]string{}
	for _, e := range shown {
		values[e.Key] = e.Value
	}
	for name, want := range map[string]string{
		"below-vscode": filepath.Join(f.dir, "test", "mcp"), "absolute": "/opt/x", "home": "~/y", "relative": filepath.Join(f.dir, "sub"), "below": "/elsewhere",
	} {
		if got := values["mcpServers."+name+".cwd"]; got != want {
			t.Errorf("%s: cwd %q, want %s", name, got, want)
		}
	}
	if values["mcpServers.vars.inherit"] != "[NOT_SET_ANYWHERE]" {
		t.Errorf("variables that are passed on: %v", values)
	}
}
