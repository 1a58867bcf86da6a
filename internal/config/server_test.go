package config

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestServers(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": `
mcpServers:
  files:
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", ./data, 5]
    env: {TOKEN: "${TOKEN}", LITERAL: "$${TOKEN}", PRICE: $5, PATH2: 'C:\new\${NAME:-x}'}
    envFile: files.env
    cwd: sub
    timeout: 5s
    startupTimeout: 2m
    enabledTools: [read_*]
    alwaysAllow: [x]
  local: {command: ./bin/server, disabled: true}
  crm: {serverUrl: "https://crm.example.com/mcp?a=${env:EMPTY}", headers: {Authorization: "Bearer ${TOKEN}"}, stateful: true}
  old: {type: sse, url: "${BASE:-http://localhost:8000}/sse", enabled: yes}
  gone: {type: streamable-http, url: "https://${NOWHERE}/mcp", timeout: "${ALSO}"}
  input: {command: x, env: {K: "${input:key}"}}
  nofile: {command: x, envFile: none.env}
  open: {command: x, args: ["${oops"]}
`,
		"work/.env":      "TOKEN=from-dotenv\nEMPTY=\n",
		"work/files.env": "TOKEN=below\nEXTRA=1\n",
	})
	e.Environ = []string{"NAME=n"}
	c, warnings := load(t, e)
	at := func(p string) string { return filepath.Join(e.Cwd, p) }
	want := []*MCPServer{
		{
			Name: "crm", Type: HTTP, Guessed: true, URL: "https://crm.example.com/mcp?a=", Headers: map[string]string{"Authorization": "Bearer from-dotenv"},
			Enabled: true, Stateful: true, StartupTimeout: time.Minute,
		},
		{
			Name: "files", Type: Stdio, Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "./data", "5"},
			Env:     map[string]string{"TOKEN": "from-dotenv", "LITERAL": "${TOKEN}", "PRICE": "$5", "PATH2": `C:\new\n`, "EXTRA": "1"},
			EnvFile: at("files.env"), Cwd: at("sub"), Enabled: true, Timeout: 5 * time.Second, StartupTimeout: 2 * time.Minute,
			EnabledTools: []string{"read_*"},
		},
		{Name: "gone", Type: HTTP, URL: "https://${NOWHERE}/mcp", Enabled: true, StartupTimeout: time.Minute},
		{Name: "input", Type: Stdio, Command: "x", Env: map[string]string{"K": "${input:key}"}, Cwd: e.Cwd, Enabled: true, StartupTimeout: time.Minute},
		{Name: "local", Type: Stdio, Command: at("bin/server"), Cwd: e.Cwd, Disabled: true, StartupTimeout: time.Minute},
		{Name: "nofile", Type: Stdio, Command: "x", EnvFile: at("none.env"), Cwd: e.Cwd, Enabled: true, StartupTimeout: time.Minute},
		{Name: "old", Type: SSE, URL: "http://localhost:8000/sse", Enabled: true, StartupTimeout: time.Minute},
		{Name: "open", Type: Stdio, Command: "x", Args: []string{"${oops"}, Cwd: e.Cwd, Enabled: true, StartupTimeout: time.Minute},
	}
	ignore := cmp.Options{cmpopts.IgnoreUnexported(MCPServer{}), cmpopts.IgnoreFields(MCPServer{}, "Err")}
	if diff := cmp.Diff(want, c.MCPServers, ignore); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	wantErrs := map[string]string{
		"gone": "harness.yaml:16:38: mcpServers.gone.url: the variable NOWHERE is not set; set it in the environment or in .env, or write ${NOWHERE:-default}\n" +
			"harness.yaml:16:73: mcpServers.gone.timeout: the variable ALSO is not set; set it in the environment or in .env, or write ${ALSO:-default}",
		"input":  "harness.yaml:17:32: mcpServers.input.env.K: ${input:key} is not known here; set a variable and write ${NAME}",
		"nofile": "harness.yaml:18:3: mcpServers.nofile.envFile: there is no file " + at("none.env"),
		"open":   "harness.yaml:19:29: mcpServers.open.args: a ${ is not closed; write $${ for the characters themselves",
	}
	for _, s := range c.MCPServers {
		got := ""
		if s.Err != nil {
			got = s.Err.Error()
		}
		if got != wantErrs[s.Name] {
			t.Errorf("%s.Err = %s\nwant %s", s.Name, got, wantErrs[s.Name])
		}
	}
	wantWarnings := []string{"harness.yaml:12:5: mcpServers.files.alwaysAllow: this key is not known and is ignored"}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Error(diff)
	}
}

func TestBadServers(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"a: {}":                               "3: mcpServers.a: the server has neither a command nor a url; add command: (a program to start) or url:",
		"a:":                                  "6: mcpServers.a: it must be a mapping, not nothing; write command: or url: below it",
		"a: npx":                              "6: mcpServers.a: it must be a mapping, not a single value; write command: or url: below it",
		"a: {command: x, url: y}":             "19: mcpServers.a.url: it contradicts command: a server is started here or runs elsewhere; keep one",
		"a: {type: stdio, url: 'http://x'}":   "7: mcpServers.a.type: stdio contradicts url; use http or sse, or give a command",
		"a: {command: x, sandbox: }":          "19: mcpServers.a.sandbox: it is empty; write {} for no network and no files",
		"a: {command: x, sandbox: yes}":       "28: mcpServers.a.sandbox: it must be a mapping with network, read, write, not a single value",
		"a: {command: x, sandbox: {raed: y}}": "29: mcpServers.a.sandbox.raed: unknown key; did you mean read?",
		"a: {command: x, sandbox: {network: some}}":                 "38: mcpServers.a.sandbox.network: \"some\" is not one of none, host",
		"a: {url: 'http://x', sandbox: {}}":                         "24: mcpServers.a.sandbox: it contradicts url: only a server that is started here has a sandbox; remove it",
		"a: {transport: http, command: x}":                          "7: mcpServers.a.type: http contradicts command; use stdio, or give a url",
		"a: {type: htp, url: 'http://x'}":                           `7: mcpServers.a.type: "htp" is not one of stdio, http, sse, openapi; did you mean http?`,
		"a: {type: http, transport: sse, url: x}":                   "19: mcpServers.a.transport: it is another name of type, which is given too; remove one of them",
		"a: {url: 'ftp://x'}":                                       "7: mcpServers.a.url: it is not an address that begins with http:// or https://",
		"a: {url: 'http://x', headers: {'A B': c}}":                 `24: mcpServers.a.headers: "A B" is not a header that can be sent`,
		"a: {command: x, timeout: 30}":                              `28: mcpServers.a.timeout: "30" has no unit; write 30s or 30ms`,
		"a: {command: x, args: {b: c}}":                             "26: mcpServers.a.args: it must be a list, not a mapping",
		"a: {command: x, env: {b: [c]}}":                            "28: mcpServers.a.env.b: it must be a single value, not a list",
		"a: {command: x, disabled: true, enabled: on}":              "35: mcpServers.a.enabled: it contradicts disabled; keep one",
		"a: {command: x, enabledTools: [t], disabledTools: [t, u]}": `38: mcpServers.a.disabledTools: "t" is in enabledTools too; remove it from one of them`,
		"a: {command: x, languages: {t: {$.q: SQL}}}":               `19: mcpServers.a.languages: t: "SQL" is not one of none sql shell html json url csv code`,
		"a: {command: x, languages: {t: {q: sql}}}":                 `19: mcpServers.a.languages: t: "q": it is not a path; write one such as $.to, $.items[*].to or $['a name']`,
		"a: {openapi: x.yaml, command: y}":                          "7: mcpServers.a.openapi: it contradicts command: a server is started here or is an HTTP service; keep one",
		"a: {openapi: x.yaml, type: http}":                          "24: mcpServers.a.type: http contradicts openapi; remove it",
		"a: {type: openapi, url: 'http://x'}":                       "7: mcpServers.a.type: openapi needs a document; give the document in openapi",
		"a: {url: 'http://x', security: {a: b}}":                    "24: mcpServers.a.security: security schemes are those of an OpenAPI document; use headers",
		"a: {openapi: x.yaml, auth: {type: oauth}}":                 "24: mcpServers.a.auth: it is not known where the credentials go; give url, the address of the service",
		"a: {url: 'https://x', auth: {type: oauth, grant: client_credentials, clientId: c, issuer: 'https://i'}}": "25: mcpServers.a.auth.grant: with client_credentials the client gets tokens for itself; give clientId, clientSecret and issuer, and remove per and redirectPort",
		"a: {url: 'https://x', auth: {type: keys, grant: client_credentials, keys: {a: b}}}":                      "44: mcpServers.a.auth.grant: it has no meaning with type: keys; remove it",
		"a: {openapi: x.yaml, url: x}":                 "24: mcpServers.a.url: it is not an address that begins with http:// or https://",
		"my-crm: {command: x}\n  my_CRM: {command: x}": "3: mcpServers.my_CRM: programs cannot tell it from my-crm: case, - and _ do not count in names; rename one",
		"P-ii: {command: x}":                           "3: mcpServers.P-ii: the name of a server may not be pii, which stands for the questions of programs about personal data",
		"a__b: {command: x}":                           "3: mcpServers.a__b: the name of a server may not have __, which separates it from its tools",
		"a/b: {command: x}":                            "3: mcpServers.a/b: the name of a server may have letters, digits, spaces and - _ . only",
		strings.Repeat("a", 65) + ": {command: x}":     "3: mcpServers." + strings.Repeat("a", 65) + ": the name of a server must have 1 to 64 characters",
	} {
		e := world(t, map[string]string{"work/harness.yaml": "mcpServers:\n  " + yaml + "\n"})
		want = "harness.yaml:2:" + want
		if strings.Contains(yaml, "\n") {
			want = strings.Replace(want, ":2:", ":3:", 1)
		}
		if got := problems(t, e); got != want {
			t.Errorf("%q\n got %s\nwant %s", yaml, got, want)
		}
	}
}

func TestServersOfVariables(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": "mcpServers:\n  fs: {command: other}\n  kept: {command: k}\n",
		"work/.env":         "MCP_DB_ENABLED=true\nDATABASE_URL='postgres://u:p@h/db?x=$${A}'\nMCP_CUSTOM_ENABLED=true\nMCP_CUSTOM_COMMAND=./run\n",
	})
	e.Environ = []string{
		"MCP_FS_ENABLED=true", "MCP_FS_ARGS=-y, @modelcontextprotocol/server-filesystem,/srv/${files}", "MCP_CUSTOM_ENABLED=0",
		`HARNESS_MCPSERVERS={"crm": {"url": "http://x/${ID}"}}`, "ID=7",
	}
	c, warnings := load(t, e)
	want := []*MCPServer{
		{Name: "crm", Type: HTTP, Guessed: true, URL: "http://x/7"},
		{
			Name: "db", Type: Stdio, Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-postgres", "postgres://u:p@h/db?x=$${A}"},
			Env: map[string]string{"DATABASE_URL": "postgres://u:p@h/db?x=$${A}"}, Cwd: e.Cwd,
		},
		{Name: "fs", Type: Stdio, Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/srv/${files}"}, Cwd: e.Cwd},
		{Name: "kept", Type: Stdio, Command: "k", Cwd: e.Cwd},
	}
	for _, s := range want {
		s.Enabled, s.StartupTimeout = true, time.Minute
	}
	if diff := cmp.Diff(want, c.MCPServers, cmpopts.IgnoreUnexported(MCPServer{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Error(warnings)
	}
	for key, value := range map[string]string{
		"mcpServers.db.args":    "[-y, @modelcontextprotocol/server-postgres, postgres://u:********@h/db?x=$${A}]",
		"mcpServers.db.env":     "{DATABASE_URL: ********}",
		"mcpServers.fs.command": "npx",
	} {
		if got := entryOf(t, c, key); got.Value != value {
			t.Errorf("%s is shown as %s", key, got.Value)
		}
	}
	if got := entryOf(t, c, "mcpServers.db.env").Origin; got != ".env DATABASE_URL" {
		t.Errorf("origin is %q", got)
	}
}

func TestUselessKeysWarn(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "mcpServers:\n  a: {command: x, headers: {A: b}, Args: [y]}\n  b: {url: 'http://x', env: {A: b}}\n"})
	_, warnings := load(t, e)
	want := []string{
		"harness.yaml:2:36: mcpServers.a.Args: this key is not known and is ignored; did you mean args?",
		"harness.yaml:2:19: mcpServers.a.headers: a server that is started here has no use for headers",
		"harness.yaml:3:24: mcpServers.b.env: a server with a url has no use for it",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
}

// TestWindowsVariables checks that on Windows, the case of a variable's name does not matter in ${…} either.
func TestWindowsVariables(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "mcpServers: {a: {command: '${ComSpec}', args: ['${A:-b}']}}\nlog: {level: warn}\n"})
	e.GOOS, e.Environ = "windows", []string{"COMSPEC=cmd", "Harness_Log_Level=debug", "LocalAppData=x", "=C:=C:\\"}
	c, _ := load(t, e)
	a, ok := c.MCPServer("a")
	if !ok || a.Command != "cmd" || a.Args[0] != "b" || c.Log.Level != "debug" {
		t.Errorf("%+v %+v", a, c.Log)
	}
	if _, ok := c.MCPServer("none"); ok {
		t.Error("there is a server none")
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"A": "1", "EMPTY": "", "NESTED": "${A}", "a_1": "low"}
	secret := func(string) (string, error) { return "", fs.ErrNotExist }
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for text, want := range map[string]string{
		"":                          "",
		"plain $5 $A $":             "plain $5 $A $",
		"${A}${env:A}-${a_1}":       "11-low",
		"${EMPTY}|${EMPTY:-d}":      "|d",
		"${NO:-d}${NO:-}":           "d",
		"${NO:-http://h:1/?a=b}":    "http://h:1/?a=b",
		"$${A} $$$${A} $$":          "${A} $${A} $",
		"$$${A}":                    "$1",
		"${NESTED}":                 "${A}", // a value is not expanded again
		`C:\Users\${A}\$${x}`:       `C:\Users\1\${x}`,
		"${env:NO:-fallback value}": "fallback value",
	} {
		if got, err := expand(text, lookup, secret); got != want || err != nil {
			t.Errorf("expand(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"${NO}":        "the variable NO is not set",
		"x${A":         "a ${ is not closed",
		"${}":          "${} does not name a variable",
		"${1A}":        "${1A} does not name a variable",
		"${a-b}":       "${a-b} does not name a variable",
		"${input:x}":   "${input:x} is not known here",
		"${A}${env:B}": "the variable B is not set",
	} {
		if got, err := expand(text, lookup, secret); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expand(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}
