// Package clients reads the servers with which other MCP clients are configured. It can rewrite such a configuration so that the client uses the
// harness.
//
// The formats are those of the clients' documentation: Claude Desktop, Claude Code, Cursor, Windsurf and Gemini CLI have mcpServers, VS Code has
// servers with inputs, Zed context_servers, Codex mcp_servers in TOML. The public registry has server.json.
package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/startup"
)

const (
	maxText    = 8 << 20 // maximum bytes of a configuration
	maxServers = 1000    // maximum number of servers in a file
)

// Server is a server of a client, in the form of harness.yaml.
type Server struct {
	*config.MCPServer
	At    []string // keys that lead to the server; empty if the text is the server itself
	Notes []string // differences from the entry of the client, and what the user has to do
	Err   error    // reason why the server cannot be used; nil if it can
}

// Options configure how a text is read.
type Options struct {
	Name   string // name for a server that has no name in the text
	Dir    string // working directory: value of ${workspaceFolder}, and the only project that is read from the file of Claude Code
	Home   string // value of ${userHome}
	TOML   bool   // whether the text is TOML; if not, it is JSON with comments and trailing commas
	Gemini bool   // rules of Gemini CLI: url means SSE, the unit of timeout is milliseconds, $NAME is a variable
}

type object = map[string]any

// Parse reads a text of one of these kinds: a client's configuration, a mapping of names to servers, a single server, or a server.json. For a
// configuration without servers, such as a file of settings, it returns no servers and no error. It returns an error if the text cannot be parsed, if
// it is empty, or if Options.Name is set and the text has no server.
func Parse(text []byte, o Options) ([]Server, error) {
	root, err := decode(text, o.TOML)
	if err != nil {
		return nil, err
	}
	var found []Server
	add := func(name string, at []string, value any) error {
		entry, ok := value.(object)
		if !ok {
			return fmt.Errorf("%s is not a mapping", strings.Join(at, "."))
		}
		if len(found) == maxServers {
			return fmt.Errorf("there are more than %d servers", maxServers)
		}
		s := o.server(name, entry)
		s.At = at
		found = append(found, s)
		return nil
	}
	known := false
	for _, path := range o.lists() {
		servers, ok := lookup(root, path).(object)
		if !ok {
			continue
		}
		known = true
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			if err := add(name, append(slices.Clone(path), name), servers[name]); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case known:
	case root["packages"] != nil || root["remotes"] != nil:
		s, err := registered(root, o.Name)
		if err != nil {
			return nil, err
		}
		return []Server{s}, nil
	case isServer(root):
		if o.Name == "" {
			return nil, errors.New("the server has no name; give one: harness servers add NAME …")
		}
		return found, add(o.Name, nil, root)
	case len(root) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(root)), func(v any) bool { m, ok := v.(object); return !ok || !isServer(m) }):
		for _, name := range slices.Sorted(maps.Keys(root)) {
			if err := add(name, []string{name}, root[name]); err != nil {
				return nil, err
			}
		}
	case o.Name != "" || len(root) == 0:
		return nil, errors.New(`there is no server in it; write {"command": …, "args": […]}, {"url": …} or {"mcpServers": {…}}`)
	}
	return found, nil
}

// lists returns the keys under which clients keep their servers.
func (o Options) lists() [][]string {
	return [][]string{
		{"mcpServers"},
		{"servers"},
		{"mcp", "servers"}, // settings.json of VS Code
		{"mcp.servers"},
		{"context_servers"},
		{"mcp_servers"},
		{"projects", o.Dir, "mcpServers"}, // ~/.claude.json
	}
}

func lookup(root object, path []string) any {
	var v any = root
	for _, key := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func isServer(m object) bool {
	for _, key := range []string{"command", "url", "serverUrl", "httpUrl"} {
		switch m[key].(type) {
		case string, []any:
			return true
		case object:
			return key == "command"
		}
	}
	return false
}

// decode reads TOML, or JSON with comments.
func decode(text []byte, isTOML bool) (root object, err error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > maxText {
		return nil, fmt.Errorf("it has more than %d bytes", maxText)
	}
	if isTOML {
		if err := toml.Unmarshal(text, &root); err != nil {
			return nil, fmt.Errorf("this is not valid TOML: %w", err)
		}
		return root, nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return object{}, nil
	}
	plain, err := hujson.Standardize(append(slices.Clone(text), '\n')) // a comment in the last line needs a line break at its end
	if err == nil {
		err = json.Unmarshal(plain, &root)
	}
	if err != nil {
		return nil, fmt.Errorf("this is not valid JSON: %w", err)
	}
	return root, nil
}

// server converts an entry of a client's configuration.
func (o Options) server(name string, m object) Server {
	s := Server{MCPServer: &config.MCPServer{Enabled: true, StartupTimeout: time.Minute, Env: map[string]string{}, Headers: map[string]string{}}}
	s.Name = s.cleanName(name)
	if command, ok := m["command"].(object); ok { // Zed, before 2026: command: {path, args, env}
		m = maps.Clone(m)
		delete(m, "command")
		maps.Copy(m, command)
		m["command"] = command["path"]
		delete(m, "path")
	}
	if command, ok := m["command"].([]any); ok && len(command) > 0 { // program and arguments in one list
		m = maps.Clone(m)
		m["command"], m["args"] = command[0], append(slices.Clone(command[1:]), list(m["args"])...)
	}
	r := &reader{Options: o, notes: &s.Notes}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		if v == nil {
			continue
		}
		switch key {
		case "type", "transport":
			kind := r.text(key, v)
			s.Type = map[string]string{"http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "sse": "sse"}[kind]
		case "command":
			s.Command = r.text(key, v)
		case "args":
			s.Args = r.texts(key, v)
		case "env":
			maps.Copy(s.Env, r.mapping(key, v))
		case "env_vars": // Codex: variables that are passed on
			s.Inherit = r.texts(key, v)
		case "envFile":
			s.EnvFile = r.text(key, v)
		case "cwd", "working_directory", "workingDirectory":
			s.Cwd = r.text(key, v)
		case "url", "serverUrl":
			s.URL = r.text(key, v)
			if o.Gemini && key == "url" {
				s.Type = "sse"
			}
		case "httpUrl":
			s.URL, s.Type = r.text(key, v), "http"
		case "headers", "http_headers":
			maps.Copy(s.Headers, r.mapping(key, v))
		case "env_http_headers": // Codex: names of variables
			for header, variable := range r.mapping(key, v) {
				s.Headers[header] = "${" + variable + "}"
			}
		case "bearer_token_env_var":
			s.Headers["Authorization"] = "Bearer ${" + r.text(key, v) + "}"
		case "disabled":
			s.Disabled = r.flag(key, v)
		case "enabled":
			s.Disabled = !r.flag(key, v)
		case "timeout":
			unit := time.Second
			if n := number(v); o.Gemini || n >= 1000 { // Gemini's unit is milliseconds; no client waits for 1000 seconds
				unit = time.Millisecond
			}
			s.Timeout = r.duration(key, v, unit)
		case "tool_timeout_sec":
			s.Timeout = r.duration(key, v, time.Second)
		case "startup_timeout_sec":
			s.StartupTimeout = r.duration(key, v, time.Second)
		case "startup_timeout_ms":
			s.StartupTimeout = r.duration(key, v, time.Millisecond)
		case "enabled_tools", "enabledTools", "includeTools":
			s.EnabledTools = r.texts(key, v)
		case "disabled_tools", "disabledTools", "excludeTools":
			s.DisabledTools = r.texts(key, v)
		case "alwaysAllow", "autoApprove", "trust", "default_tools_approval_mode":
			s.Notes = append(s.Notes, key+" is left out: policy in harness.yaml says which calls are allowed")
		case "oauth", "auth", "authProviderType", "oauth_resource", "scopes":
			s.Notes = append(s.Notes, key+" is left out: add auth: {type: oauth}, then harness servers login "+s.Name)
		case "name", "description", "source", "gallery", "version", "settings", "$schema", "icon", "dev", "required":
		default:
			s.Notes = append(s.Notes, key+" is left out: it has no meaning here")
		}
	}
	switch {
	case r.err != nil:
		s.Err = r.err
	case s.Command == "" && s.URL == "":
		s.Err = errors.New("it has neither a command nor a url; an extension of the client may start it")
	case s.Command != "":
		s.Type = ""
		if len(s.Headers) > 0 {
			s.Headers = nil
		}
	default:
		s.Env, s.Args, s.Cwd, s.EnvFile, s.Inherit = nil, nil, "", "", nil
	}
	slices.Sort(s.Notes)
	s.Notes = slices.Compact(s.Notes)
	return s
}

var (
	badInName  = startup.Regexp(`[^A-Za-z0-9_.-]+`)
	underlines = startup.Regexp(`__+`)
)

// cleanName returns a name of at most 64 letters, digits, dashes, dots and single underscores. It adds a note if the name changes.
func (s *Server) cleanName(name string) string {
	clean := strings.Trim(underlines().ReplaceAllString(badInName().ReplaceAllString(name, "-"), "_"), "-_.")
	if len(clean) > 64 {
		clean = clean[:64]
	}
	if clean == "" {
		clean = "server"
	}
	if clean != name {
		s.Notes = append(s.Notes, fmt.Sprintf("it is called %s here", clean))
	}
	return clean
}

// reader reads the values of an entry. It keeps the first error.
type reader struct {
	Options
	notes *[]string
	err   error
}

func (r *reader) wrong(key, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is not %s", key, want)
	}
}

func (r *reader) text(key string, v any) string {
	switch x := v.(type) {
	case string:
		return r.expand(x)
	case bool:
		return fmt.Sprint(x)
	case float64, int64:
		return number2text(x)
	}
	r.wrong(key, "a text")
	return ""
}

func number2text(v any) string {
	if f := number(v); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return fmt.Sprintf("%d", int64(f))
	}
	return fmt.Sprint(v)
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}

func (r *reader) texts(key string, v any) (all []string) {
	if _, ok := v.([]any); !ok {
		r.wrong(key, "a list")
	}
	for _, one := range list(v) {
		all = append(all, r.text(key, one))
	}
	return all
}

func (r *reader) mapping(key string, v any) map[string]string {
	m, ok := v.(object)
	if !ok {
		r.wrong(key, "a mapping")
	}
	all := map[string]string{}
	for name, value := range m {
		if value == nil { // VS Code removes the variable
			continue
		}
		all[name] = r.text(key+"."+name, value)
	}
	return all
}

func (r *reader) flag(key string, v any) bool {
	b, ok := v.(bool)
	if !ok {
		r.wrong(key, "true or false")
	}
	return b
}

func number(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case int64:
		return float64(x)
	}
	return math.NaN()
}

func (r *reader) duration(key string, v any, unit time.Duration) time.Duration {
	n := number(v)
	if !(n > 0 && n*float64(unit) < float64(365*24*time.Hour)) {
		r.wrong(key, "a number of seconds")
		return 0
	}
	return max(time.Duration(n*float64(unit)), time.Millisecond)
}

var (
	placeholder  = startup.Regexp(`\$\{[^{}]*\}|\$`)
	variable     = startup.Regexp(`^(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?$`)
	geminiDollar = startup.Regexp(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	notVariable  = startup.Regexp(`[^A-Za-z0-9]+`)
)

// expand converts the placeholders of clients into those of harness.yaml. It doubles every other dollar sign that would have a meaning in
// harness.yaml.
func (r *reader) expand(text string) string {
	if r.Gemini {
		text = geminiDollar().ReplaceAllString(text, "${$1}")
	}
	found := placeholder().FindAllStringIndex(text, -1)
	var b strings.Builder
	at := 0
	for _, f := range found {
		part := text[f[0]:f[1]]
		b.WriteString(text[at:f[0]])
		at = f[1]
		inner := strings.TrimSuffix(strings.TrimPrefix(part, "${"), "}")
		input, isInput := strings.CutPrefix(inner, "input:")
		switch {
		case part == "$" && at < len(text) && (text[at] == '$' || text[at] == '{'):
			b.WriteString("$$")
		case part == "$":
			b.WriteString("$")
		case isInput:
			name := strings.ToUpper(strings.Trim(notVariable().ReplaceAllString(input, "_"), "_"))
			if name == "" || name[0] >= '0' && name[0] <= '9' {
				name = "INPUT_" + name
			}
			*r.notes = append(*r.notes, fmt.Sprintf("set the variable %s, which the client asked for (%s), in the environment or in .env", name, input))
			b.WriteString("${" + name + "}")
		case slices.Contains([]string{"workspaceFolder", "workspaceRoot"}, inner) && r.Dir != "":
			b.WriteString(dollars(r.Dir))
		case inner == "workspaceFolderBasename" && r.Dir != "":
			b.WriteString(dollars(filepath.Base(r.Dir)))
		case inner == "userHome" && r.Home != "":
			b.WriteString(dollars(r.Home))
		case inner == "pathSeparator" || inner == "/":
			b.WriteString(string(filepath.Separator))
		case variable().MatchString(inner):
			b.WriteString(part)
		default:
			*r.notes = append(*r.notes, fmt.Sprintf("%s has no meaning here and is taken as it stands", part))
			b.WriteString("$" + part)
		}
	}
	b.WriteString(text[at:])
	return b.String()
}

// dollars escapes a text so that harness.yaml takes it literally.
func dollars(text string) string {
	return strings.NewReplacer("$$", "$$$$", "${", "$${").Replace(text)
}
