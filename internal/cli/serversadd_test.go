package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersAdd runs command lines and checks the entry in harness.yaml.
func TestServersAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"command", []string{"files", "--", "npx", "-y", "server", "./data"}, "files:\n    command: npx\n    args: [-y, server, ./data]\n"},
		{
			"flags like ours",
			[]string{"x", "--", "cmd", "--json", "-e", "A=B", "--header", "C", "--config", "d", "--", "-h", "--help"},
			"x:\n    command: cmd\n    args: [--json, -e, A=B, --header, C, --config, d, --, -h, --help]\n",
		},
		{"without --", []string{"x", "npx", "-y", "--json", "server"}, "x:\n    command: npx\n    args: [-y, --json, server]\n"},
		{
			"environment",
			[]string{"x", "-e", "A=b=c;D=e", "-e", "F=1,2", "--env", "G=", "--", "cmd"},
			"x:\n    command: cmd\n    env:\n      A: \"b=c;D=e\"\n      F: \"1,2\"\n      G: \"\"\n",
		},
		{"environment before the name", []string{"-e", "A=${B}", "x", "--", "cmd"}, "x:\n    command: cmd\n    env:\n      A: ${B}\n"},
		{"URL", []string{"x", "https://a.example/mcp"}, "x:\n    url: https://a.example/mcp\n"},
		{
			"transport before",
			[]string{"--transport", "http", "x", "https://a.example/mcp", "--header", "A: b, c", "--header=D: e:f"},
			"x:\n    type: http\n    url: https://a.example/mcp\n    headers:\n      A: \"b, c\"\n      D: \"e:f\"\n",
		},
		{
			"headers on both sides",
			[]string{"--header", "A: b", "x", "https://a.example/mcp", "--header", "C: d"},
			"x:\n    url: https://a.example/mcp\n    headers:\n      A: b\n      C: d\n",
		},
		{"transport behind", []string{"x", "https://a.example/sse", "--transport", "sse"}, "x:\n    type: sse\n    url: https://a.example/sse\n"},
		{
			"placeholder",
			[]string{"x", "https://a.example/mcp", "--header", "Authorization: Bearer ${TOKEN}"},
			"x:\n    url: https://a.example/mcp\n    headers:\n      Authorization: Bearer ${TOKEN}\n",
		},
		{
			"OpenAPI address",
			[]string{"x", "--transport", "openapi", "https://a.example/openapi.json", "--header", "A: b"},
			"x:\n    openapi: https://a.example/openapi.json\n    headers:\n      A: b\n",
		},
		{"URL for a command", []string{"--transport", "stdio", "x", "--", "http://cmd"}, "x:\n    command: http://cmd\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setup(t)
			f.run(append([]string{"servers", "add"}, c.args...)...).want(0)
			plain := strings.NewReplacer(`"`, "", "'", "").Replace // how values are quoted does not matter
			if got := f.read("harness.yaml"); !strings.Contains(plain(got), plain(c.want)) {
				t.Errorf("harness.yaml is\n%s\nwant in it\n%s", got, c.want)
			}
		})
	}
}

func TestServersAddOpenAPI(t *testing.T) {
	t.Parallel()
	const document = "openapi: 3.1.0\ninfo: {title: Pets}\nservers: [{url: 'http://127.0.0.1:1'}]\npaths: {/pets: {get: {operationId: listPets}}}\n"
	for file, text := range map[string]string{
		"pets.yaml": document,
		"pets.json": `{"openapi": "3.0.0", "servers": [{"url": "http://127.0.0.1:1"}], "paths": {"/pets": {"get": {"operationId": "listPets"}}}}`,
	} {
		f := setup(t)
		path := f.write(file, text)
		f.run("servers", "add", "pets", "./"+file, "--header", "X: y").want(0)
		if got := f.read("harness.yaml"); !strings.Contains(got, filepath.Base(path)) || !strings.Contains(got, "openapi:") || strings.Contains(got, "command:") {
			t.Errorf("%s: harness.yaml is\n%s", file, got)
		}
		if r := f.run("servers", "test", "pets").want(0); !strings.Contains(r.stdout, "openapi") {
			t.Errorf("%s", r.stdout)
		}
		if r := f.run("tools", "list").want(0); !strings.Contains(r.stdout, "pets__listPets") {
			t.Errorf("%s", r.stdout)
		}
	}
}

func TestServersAddGlobalFlags(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var added struct{ Added, File string }
	f.run("servers", "add", "x", "https://a.example/mcp", "--header", "A: b", "--json").want(0).value(&added)
	if added.Added != "x" || added.File != filepath.Join(f.dir, "harness.yaml") {
		t.Errorf("got %+v", added)
	}
	other := f.write("other.yaml", "# mine\n")
	f.run("servers", "add", "y", "https://a.example/mcp", "--config", "other.yaml").want(0)
	if text := f.read("other.yaml"); !strings.Contains(text, "# mine\n") || !strings.Contains(text, `"y":`) {
		t.Errorf("%s is\n%s", other, text)
	}
	before := f.read("harness.yaml")
	r := f.run("servers", "add", "x", "--", "cmd").want(2)
	if !strings.Contains(r.stderr, "--replace") || f.read("harness.yaml") != before {
		t.Errorf("got %s", r.stderr)
	}
	f.run("servers", "add", "x", "--replace", "--", "cmd").want(0)
	if text := f.read("harness.yaml"); strings.Contains(text, "a.example") || !strings.Contains(text, "command: cmd") {
		t.Errorf("got\n%s", text)
	}
	// A server at a URL has no environment variables.
	r = f.run("servers", "add", "--transport", "http", "z", "https://a.example/mcp", "-e", "K=V", "--header", "A: b").want(2)
	if text := f.read("harness.yaml"); !strings.Contains(r.stderr, "--header 'Name: value'") || strings.Contains(text, "K: V") || strings.Contains(text, "A: b") {
		t.Errorf("%s\n%s", r.stderr, text)
	}
	f.run("servers", "add", "--transport", "http", "z", "https://a.example/mcp", "--header", "A: b").want(0)
	f.run("config", "show").want(0)
}

func TestServersAddRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"x"}, `no command or URL for server "x"`},
		{[]string{"x", "--"}, `no command or URL for server "x"`},
		{[]string{"x", "-e", "A", "--", "cmd"}, `environment variable "A" has no value; write -e NAME=VALUE`},
		{[]string{"x", "https://a.example", "--header", "A"}, `header "A" has no colon; write --header 'Name: value'`},
		{[]string{"x", "https://a.example", "more"}, `unexpected "more" after the URL`},
		{[]string{"x", "https://a.example", "--bogus"}, "unknown flag --bogus; see harness servers add --help"},
		{[]string{"--transport", "pigeon", "x", "https://a.example"}, `unknown transport "pigeon"; there are stdio, http, sse and openapi`},
		{[]string{"bad name!", "--", "cmd"}, "bad name!"},
	} {
		f := setup(t)
		r := f.run(append([]string{"servers", "add"}, c.args...)...).want(2)
		if !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%v: stdout %q, stderr %q, want %q", c.args, r.stdout, r.stderr, c.want)
		}
		if _, err := os.Stat(filepath.Join(f.dir, "harness.yaml")); err == nil {
			t.Errorf("%v: a file was written", c.args)
		}
	}
}

// TestServersDisable checks that a disabled server stays in harness.yaml and is not used.
func TestServersDisable(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	before := f.read("harness.yaml")
	f.run("servers", "disable", "database").want(0)
	if r := f.run("servers", "list").want(0); !strings.Contains(r.stdout, "disabled") {
		t.Errorf("got %s", r.stdout)
	}
	if r := f.run("tools", "call", "database__list_tables").want(2); !strings.Contains(r.stderr, "harness servers enable database") {
		t.Errorf("got %s", r.stderr)
	}
	f.run("servers", "enable", "database").want(0)
	f.run("tools", "call", "database__list_tables").want(0)
	if got := f.read("harness.yaml"); strings.Replace(got, "    disabled: false\n", "", 1) != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
	if r := f.run("servers", "disable", "databse").want(2); !strings.Contains(r.stderr, "did you mean database?") {
		t.Errorf("got %s", r.stderr)
	}
}

// TestServersTestTimeout checks that --timeout replaces the time limit of the server's entry.
func TestServersTestTimeout(t *testing.T) {
	t.Parallel()
	f := setup(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	f.run("servers", "add", "slow", "http://"+silent.Addr().String()+"/mcp").want(0)
	if r := f.run("servers", "test", "slow", "--timeout", "50ms").want(3); !strings.Contains(r.stderr, "within 50ms") {
		t.Errorf("got %s", r.stderr)
	}
}

// TestServersAddPlaceholder checks that a value that looks like a placeholder for a secret causes a warning, and that a secret does not.
func TestServersAddPlaceholder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for i, c := range []struct {
		value string
		warns bool
	}{
		{"YOUR-API-KEY", true},
		{"your_api_key_here", true},
		{"<token>", true},
		{"Bearer YOUR_TOKEN", true},
		{"xxxxxxxx", true},
		{"sk-...", true},
		{"changeme", true},
		{"{{GITHUB_TOKEN}}", true},
		{"Insert token", true},
		{"hq7Kd02mPz81LwYbTn55", false},
		{"ghx_9fK2mLq0Zt7RwYhereVb31", false},
		{"Bearer 4f0c8aa1b2934de7", false},
	} {
		r := f.run("servers", "add", fmt.Sprint("s", i), "-e", "API_TOKEN="+c.value, "--", "true").want(0)
		if got := strings.Contains(r.stderr, "looks like the placeholder"); got != c.warns {
			t.Errorf("%q: warns %v: %s", c.value, got, r.stderr)
		}
	}
}
