package clients_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"mcp-code-exec-harness/internal/clients"
	"mcp-code-exec-harness/internal/config"
)

// shape is a configuration as a client's documentation shows it, with the servers that it stands for. source names the documentation.
type shape struct {
	name, source, text string
	options            clients.Options
	want               []*config.MCPServer
	notes              string // text that the notes of the servers must contain
}

func command(name, command string, args ...string) *config.MCPServer {
	return &config.MCPServer{Name: name, Command: command, Args: args}
}

func env(s *config.MCPServer, pairs ...string) *config.MCPServer {
	s.Env = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		s.Env[pairs[i]] = pairs[i+1]
	}
	return s
}

func remote(name, kind, url string, headers ...string) *config.MCPServer {
	s := &config.MCPServer{Name: name, Type: kind, URL: url}
	if len(headers) > 0 {
		s.Headers = map[string]string{}
	}
	for i := 0; i < len(headers); i += 2 {
		s.Headers[headers[i]] = headers[i+1]
	}
	return s
}

func with(s *config.MCPServer, change func(*config.MCPServer)) *config.MCPServer {
	change(s)
	return s
}

var shapes = []shape{
	{
		name: "claude-desktop", source: "modelcontextprotocol.io/docs/develop/connect-local-servers",
		text: `{"mcpServers": {"filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]}}}`,
		want: []*config.MCPServer{command("filesystem", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop")},
	},
	{
		name: "claude-code", source: "code.claude.com/docs/en/mcp",
		text: `{"mcpServers": {
			"api-server": {"type": "http", "url": "${API_BASE_URL:-https://api.example.com}/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}},
			"database": {"type": "stdio", "command": "/path/to/server", "args": [], "env": {"DB_URL": "${DB_URL}"}}},
			"projects": {"/project": {"mcpServers": {"here": {"command": "x"}}}, "/elsewhere": {"mcpServers": {"there": {"command": "y"}}}}}`,
		options: clients.Options{Dir: "/project"},
		want: []*config.MCPServer{
			remote("api-server", "http", "${API_BASE_URL:-https://api.example.com}/mcp", "Authorization", "Bearer ${API_KEY}"),
			env(command("database", "/path/to/server"), "DB_URL", "${DB_URL}"), command("here", "x"),
		},
	},
	{
		name: "cursor", source: "cursor.com/docs/context/mcp",
		text: `{"mcpServers": {
			"server-name": {"type": "stdio", "command": "python", "args": ["${workspaceFolder}/tools/mcp_server.py"], "env": {"API_KEY": "${env:API_KEY}"}, "envFile": ".env"},
			"web": {"url": "http://localhost:3000/mcp", "headers": {"API_KEY": "value"}, "auth": {"CLIENT_ID": "x"}}}}`,
		options: clients.Options{Dir: "/project"},
		want: []*config.MCPServer{
			with(env(command("server-name", "python", "/project/tools/mcp_server.py"), "API_KEY", "${env:API_KEY}"), func(s *config.MCPServer) { s.EnvFile = ".env" }),
			remote("web", "", "http://localhost:3000/mcp", "API_KEY", "value"),
		},
		notes: "harness servers login web",
	},
	{
		name: "vscode", source: "code.visualstudio.com/docs/copilot/reference/mcp-configuration",
		text: `{
			// what the user is asked
			"inputs": [{"type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true},],
			"servers": {
				/* the first */
				"Perplexity": {"type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask"], "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}", "GONE": null}},
				"GitHub Copilot": {"type": "http", "url": "https://api.githubcopilot.com/mcp"},
			},
		}`,
		want: []*config.MCPServer{
			remote("GitHub-Copilot", "http", "https://api.githubcopilot.com/mcp"),
			env(command("Perplexity", "npx", "-y", "server-perplexity-ask"), "PERPLEXITY_API_KEY", "${PERPLEXITY_KEY}"),
		},
		notes: "set the variable PERPLEXITY_KEY",
	},
	{
		name: "windsurf", source: "docs.windsurf.com/windsurf/cascade/mcp",
		text: `{"mcpServers": {"remote-http-mcp": {"serverUrl": "https://server.example.com/mcp", "headers": {"API_KEY": "Bearer ${env:AUTH_TOKEN}"}, "disabledTools": ["a"]},
			"off": {"command": "x", "disabled": true}}}`,
		want: []*config.MCPServer{
			with(command("off", "x"), func(s *config.MCPServer) { s.Disabled = true }),
			with(remote("remote-http-mcp", "", "https://server.example.com/mcp", "API_KEY", "Bearer ${env:AUTH_TOKEN}"), func(s *config.MCPServer) {
				s.DisabledTools = []string{"a"}
			}),
		},
	},
	{
		name: "zed", source: "zed.dev/docs/ai/mcp, and its form of 2025 with command.path",
		text: `{"theme": "One", "context_servers": {
			"local": {"command": "some-command", "args": ["arg-1", "arg-2"], "env": {}},
			"older": {"source": "custom", "command": {"path": "node", "args": ["s.js"], "env": {"A": "b"}}, "settings": {}},
			"remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer <token>"}}}}`,
		want: []*config.MCPServer{
			command("local", "some-command", "arg-1", "arg-2"), env(command("older", "node", "s.js"), "A", "b"),
			remote("remote", "", "https://example.com/mcp", "Authorization", "Bearer <token>"),
		},
	},
	{
		name: "codex", source: "developers.openai.com/codex/mcp",
		text: "[mcp_servers.context7]\ncommand = \"npx\"\nargs = [\"-y\", \"@upstash/context7-mcp\"]\nenv_vars = [\"LOCAL_TOKEN\"]\n" +
			"startup_timeout_sec = 20\ntool_timeout_sec = 45.5\n\n[mcp_servers.context7.env]\nMY_ENV_VAR = \"MY_ENV_VALUE\"\n\n" +
			"[mcp_servers.figma]\nurl = \"https://mcp.figma.com/mcp\"\nbearer_token_env_var = \"FIGMA_OAUTH_TOKEN\"\nhttp_headers = { \"X-Figma-Region\" = \"us-east-1\" }\n" +
			"env_http_headers = { X-Key = \"KEY_VAR\" }\nenabled_tools = [\"open\"]\nenabled = false\n",
		options: clients.Options{TOML: true},
		want: []*config.MCPServer{
			with(env(command("context7", "npx", "-y", "@upstash/context7-mcp"), "MY_ENV_VAR", "MY_ENV_VALUE"), func(s *config.MCPServer) {
				s.StartupTimeout, s.Timeout = 20*time.Second, 45500*time.Millisecond
				s.Inherit = []string{"LOCAL_TOKEN"}
			}),
			with(remote("figma", "", "https://mcp.figma.com/mcp", "Authorization", "Bearer ${FIGMA_OAUTH_TOKEN}", "X-Figma-Region", "us-east-1", "X-Key", "${KEY_VAR}"),
				func(s *config.MCPServer) { s.EnabledTools, s.Disabled = []string{"open"}, true }),
		},
	},
	{
		name: "gemini", source: "github.com/google-gemini/gemini-cli, docs/tools/mcp-server.md",
		text: `{"mcpServers": {
			"pythonTools": {"command": "python", "args": ["-m", "my_mcp_server", "--port", "8080"], "cwd": "./mcp-servers/python",
				"env": {"DATABASE_URL": "$DB_CONNECTION_STRING", "API_KEY": "${EXTERNAL_API_KEY}"}, "timeout": 15000},
			"httpServer": {"httpUrl": "http://localhost:3000/mcp", "timeout": 500},
			"filtered": {"url": "http://localhost:8080/sse", "includeTools": ["safe_tool"], // "excludeTools": ["x"],
				"trust": true}}}`,
		options: clients.Options{Gemini: true},
		want: []*config.MCPServer{
			with(remote("filtered", "sse", "http://localhost:8080/sse"), func(s *config.MCPServer) { s.EnabledTools = []string{"safe_tool"} }),
			with(remote("httpServer", "http", "http://localhost:3000/mcp"), func(s *config.MCPServer) { s.Timeout = 500 * time.Millisecond }),
			with(env(command("pythonTools", "python", "-m", "my_mcp_server", "--port", "8080"), "DATABASE_URL", "${DB_CONNECTION_STRING}", "API_KEY", "${EXTERNAL_API_KEY}"),
				func(s *config.MCPServer) { s.Cwd, s.Timeout = "./mcp-servers/python", 15*time.Second }),
		},
		notes: "policy in harness.yaml",
	},
	{
		name: "server.json of npm", source: "github.com/modelcontextprotocol/registry, docs/reference/server-json",
		text: `{"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": "io.github.modelcontextprotocol/brave-search", "version": "1.0.2",
			"packages": [{"registryType": "npm", "identifier": "@modelcontextprotocol/server-brave-search", "version": "1.0.2", "transport": {"type": "stdio"},
				"packageArguments": [{"type": "named", "name": "--mode", "value": "fast"}, {"type": "positional", "valueHint": "target_dir", "isRequired": true}, {"type": "positional", "valueHint": "more"}],
				"environmentVariables": [{"name": "BRAVE_API_KEY", "description": "Brave Search API Key", "isRequired": true, "isSecret": true}, {"name": "LOG", "default": "info"}]}]}`,
		want: []*config.MCPServer{env(command("brave-search", "npx", "-y", "@modelcontextprotocol/server-brave-search@1.0.2", "--mode", "fast", "${TARGET_DIR}"),
			"BRAVE_API_KEY", "${BRAVE_API_KEY}", "LOG", "info")},
		notes: "Brave Search API Key",
	},
	{
		name: "server.json of a container", source: "the same",
		text: `{"name": "io.github.a/b", "packages": [{"registryType": "mcpb", "identifier": "https://x/y.mcpb", "transport": {"type": "stdio"}},
			{"registryType": "oci", "identifier": "ghcr.io/a/b:1.1.0", "transport": {"type": "stdio"}, "environmentVariables": [{"name": "DIR", "isRequired": true}]}]}`,
		want: []*config.MCPServer{env(command("b", "docker", "run", "-i", "--rm", "-e", "DIR", "ghcr.io/a/b:1.1.0"), "DIR", "${DIR}")},
	},
	{
		name: "server.json of a remote", source: "the same",
		text: `{"name": "com.example/weather", "remotes": [{"type": "streamable-http", "url": "https://weather.example.com/mcp", "headers": [{"name": "Authorization", "value": "Bearer {token}", "isRequired": true, "isSecret": true}]}]}`,
		want: []*config.MCPServer{remote("weather", "http", "https://weather.example.com/mcp", "Authorization", "${AUTHORIZATION}")},
	},
	{
		name: "one server", text: `{"command": ["npx", "-y"], "args": ["x"], "alwaysAllow": ["a"]}`, options: clients.Options{Name: "mine"},
		want: []*config.MCPServer{command("mine", "npx", "-y", "x")},
	},
	{
		name: "names only", text: `{"a": {"command": "x"}, "b": {"url": "https://y"}}`,
		want: []*config.MCPServer{command("a", "x"), remote("b", "", "https://y")},
	},
	{
		name: "dollar signs", text: `{"a": {"command": "x", "args": ["$5", "$$", "${1x}", "a${command:pick}b", "${unclosed"]}}`,
		want:  []*config.MCPServer{command("a", "x", "$5", "$$$", "$${1x}", "a$${command:pick}b", "$${unclosed")},
		notes: "${1x} has no meaning here",
	},
	{name: "nothing", text: `{"theme": "dark"}`, want: nil},
	{name: "empty", text: ``, want: nil},
}

// plain compares the fields that a user can set.
var plain = cmp.Options{cmpopts.IgnoreUnexported(config.MCPServer{}), cmpopts.EquateEmpty()}

func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range shapes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := clients.Parse([]byte(c.text), c.options)
			if err != nil && c.want != nil {
				t.Fatal(err)
			}
			var got []*config.MCPServer
			var notes []string
			for _, s := range found {
				if s.Err != nil {
					t.Errorf("%s: %v", s.Name, s.Err)
				}
				got, notes = append(got, s.MCPServer), append(notes, s.Notes...)
			}
			for _, s := range c.want {
				s.Enabled = true
				if s.StartupTimeout == 0 {
					s.StartupTimeout = time.Minute
				}
			}
			if diff := cmp.Diff(c.want, got, plain); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !strings.Contains(strings.Join(notes, "\n"), c.notes) {
				t.Errorf("no %q in %q", c.notes, notes)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"command": "x"}`:         "has no name",
		`{`:                        "not valid JSON",
		`[1]`:                      "not valid JSON",
		`{"mcpServers": {"a": 1}}`: "not a mapping",
		`{"name": "a/b", "packages": [{"registryType": "nuget", "identifier": "x"}]}`: "no package that can be started here",
		`{"mcpServers": {` + many() + `}}`:                                            "more than 1000",
	} {
		if _, err := clients.Parse([]byte(text), clients.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x", "args": "y"}, "b": {"command": "z"}}}`:   "args is not a list",
		`{"mcpServers": {"a": {"settings": {}}, "b": {"command": "z"}}}`:                "neither a command nor a url",
		`{"mcpServers": {"a": {"command": "x", "timeout": -1}, "b": {"command": "z"}}}`: "timeout is not",
	} {
		found, err := clients.Parse([]byte(text), clients.Options{})
		if err != nil || len(found) != 2 || found[0].Err == nil || !strings.Contains(found[0].Err.Error(), want) || found[1].Err != nil {
			t.Errorf("%s: %+v, %v, want %s", text, found, err, want)
		}
	}
}

func many() string {
	var b strings.Builder
	for i := range 1001 {
		b.WriteString(`"s` + strings.Repeat("x", i%40) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `": {"command": "x"},`)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestRewrite: a rewrite removes servers and adds the harness. Comments and everything else stay.
func TestRewrite(t *testing.T) {
	t.Parallel()
	entry := clients.Entry{Command: `C:\bin\harness.exe`, Args: []string{"mcp", "--config", "/a b/harness.yaml"}}
	for _, c := range []struct {
		client, text string
		remove       [][]string
		want         string
	}{
		{
			"cursor", "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // first\n    // the second\n    \"b\": {\"url\": \"https://y\"}\n  },\n  \"other\": [1, 2] // stays\n}\n",
			[][]string{{"mcpServers", "a"}},
			"// the second\n    \"b\": {\"url\": \"https://y\"},\n    \"harness\": {",
		},
		{"claude-code", `{"projects": {"/w": {"mcpServers": {"a": {"command": "x"}}, "history": []}}}`, [][]string{{"projects", "/w", "mcpServers", "a"}}, `"type":"stdio"`},
		{"zed", `{"theme": "One", "context_servers": {"a": {"command": "x"}, "ext": {"settings": {}}},}`, [][]string{{"context_servers", "a"}}, `"ext": {"settings": {}}`},
		{"vscode", ``, nil, `"servers"`},
		{
			"codex",
			"model = \"m\" # mine\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.a.env]\nK = \"v\"\n\n[mcp_servers.\"b c\"]\nurl = \"https://y\"\n\n[profiles.p] # stays\nmodel = \"n\"\n",
			[][]string{{"mcp_servers", "a"}},
			"[mcp_servers.\"b c\"]\nurl = \"https://y\"\n\n[profiles.p] # stays\nmodel = \"n\"\n\n[mcp_servers.harness]\n",
		},
	} {
		client := clients.All[slices.IndexFunc(clients.All, func(one clients.Client) bool { return one.Name == c.client })]
		out, err := client.Rewrite([]byte(c.text), c.remove, entry)
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s\nwant in it %s", c.client, err, out, c.want)
			continue
		}
		found, err := clients.Parse(out, clients.Options{TOML: client.TOML, Dir: "/w"})
		i := slices.IndexFunc(found, func(s clients.Server) bool { return s.Name == "harness" })
		if err != nil || i < 0 || found[i].Command != entry.Command || !slices.Equal(found[i].Args, entry.Args) {
			t.Errorf("%s: %+v, %v", c.client, found, err)
		}
		again, err := client.Rewrite(out, nil, entry)
		if err != nil {
			t.Errorf("%s again: %v\n%s", c.client, err, again)
		}
	}
	// A file with an inline table cannot be edited line by line, so the rewrite returns an error.
	codex := clients.All[slices.IndexFunc(clients.All, func(one clients.Client) bool { return one.TOML })]
	if _, err := codex.Rewrite([]byte("mcp_servers = { a = { command = \"x\" } }\n"), [][]string{{"mcp_servers", "a"}}, entry); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Error(err)
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/home/me/.cursor/mcp.json": "cursor", "/w/.vscode/mcp.json": "vscode", "/w/.mcp.json": "claude-code", "/home/me/.claude.json": "claude-code",
		"/home/me/.codex/config.toml": "codex", "/x/y.toml": "codex", "/home/me/.gemini/settings.json": "gemini", "/home/me/.config/zed/settings.json": "zed",
		"/tmp/claude_desktop_config.json": "file", "/x/server.json": "file",
	} {
		if got := clients.Guess(path).Name; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// FuzzRewrite: a rewrite fails, or keeps everything outside the list of servers if it removes no server.
func FuzzRewrite(f *testing.F) {
	for _, c := range shapes {
		f.Add([]byte(c.text), c.options.TOML)
	}
	f.Fuzz(func(t *testing.T, text []byte, isTOML bool) {
		client := clients.All[slices.IndexFunc(clients.All, func(one clients.Client) bool { return one.TOML == isTOML })]
		found, err := clients.Parse(text, clients.Options{TOML: isTOML})
		if err != nil {
			return
		}
		var remove [][]string
		for _, s := range found {
			if len(s.At) > 0 && s.Name != "harness" {
				remove = append(remove, s.At)
			}
		}
		out, err := client.Rewrite(text, remove, clients.Entry{Command: "harness", Args: []string{"mcp"}})
		if err != nil {
			return
		}
		before, after := content(t, text, isTOML), content(t, out, isTOML)
		for _, at := range append(remove, append(slices.Clone(client.Path), "harness")) {
			without(before, at)
			without(after, at)
		}
		for _, root := range []map[string]any{before, after} {
			if servers, is := root[client.Path[0]].(map[string]any); is && len(servers) == 0 {
				delete(root, client.Path[0])
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%q without %q became %q", text, remove, out)
		}
	})
}

// content returns the content of a file.
func content(t *testing.T, text []byte, isTOML bool) map[string]any {
	t.Helper()
	root := map[string]any{}
	if isTOML {
		if err := toml.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
	} else if standard, err := hujson.Standardize(slices.Clone(text)); err == nil {
		_ = json.Unmarshal(standard, &root) // an empty file is not valid JSON
	}
	return root
}

// without deletes the member at a path.
func without(root map[string]any, at []string) {
	for _, key := range at[:len(at)-1] {
		next, is := root[key].(map[string]any)
		if !is {
			return
		}
		root = next
	}
	delete(root, at[len(at)-1])
}
