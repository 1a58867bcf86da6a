package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// serverSource is an entry of mcpServers before it is looked at.
type serverSource struct {
	field
	base    string // what relative paths in it mean
	literal bool   // ${VAR} means itself: the values come from variables already
}

// serversFrom takes over the mcpServers of a layer. An entry replaces one of the same name of a lower layer.
func (l *loader) serversFrom(n node, base string) {
	switch n.kind {
	case null:
	case mapping:
		for _, f := range n.keys {
			l.servers[f.name] = serverSource{field: f, base: base}
		}
	default:
		l.problem(n.errorf("mcpServers", "write the servers' names indented below it", "it must be a mapping, not %s", n.kind))
	}
}

// serversFromText is serversFrom for a variable.
func (l *loader) serversFromText(text string, at position, base string) {
	n, err := parse([]byte(text), at)
	if err != nil {
		l.problem(at.errorf("mcpServers", `write {"name": {"command": ...}}`, "this is not valid JSON or YAML"))
		return
	}
	l.serversFrom(n, base)
}

// addServer checks an entry and adds it to the configuration.
func (l *loader) addServer(name string, src serverSource) {
	path := "mcpServers." + name
	if problem := serverName(name); problem != "" {
		l.problem(src.errorf(path, "", "%s", problem))
		return
	}
	for _, other := range l.config.MCPServers {
		if sameName(other.Name, name) {
			l.problem(src.errorf(path, "rename one",
				"programs cannot tell it from %s: case, - and _ do not count in names", other.Name))
			return
		}
	}
	if src.value.kind != mapping {
		l.problem(src.value.errorf(path, "write command: or url: below it", "it must be a mapping, not %s", src.value.kind))
		return
	}
	before := len(l.problems)
	s := &MCPServer{Name: name}
	given := l.readServer(s, path, src)
	if len(l.problems) == before {
		l.checkServer(s, path, src, given)
	}
	l.config.MCPServers = append(l.config.MCPServers, s)
}

func serverName(name string) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_. "
	switch {
	case name == "" || len(name) > 64:
		return "the name of a server must have 1 to 64 characters"
	case strings.Trim(name, allowed) != "" || strings.Trim(name, "-_. ") == "" || strings.TrimSpace(name) != name:
		return "the name of a server may have letters, digits, spaces and - _ . only"
	case strings.Contains(name, "__"):
		return "the name of a server may not have __, which separates it from its tools"
	}
	return ""
}

// readServer assigns the keys of an entry and returns the position of each given key.
func (l *loader) readServer(s *MCPServer, path string, src serverSource) map[string]position {
	keys := keysOf(reflect.TypeFor[MCPServer](), path+".")
	dst := reflect.ValueOf(s).Elem()
	for _, k := range keys {
		k.assignDefault(dst.FieldByIndex(k.index))
	}
	given := map[string]position{}
	for _, f := range src.value.keys {
		i := slices.IndexFunc(keys, func(k key) bool { return slices.Contains(k.names(), f.name) })
		if i < 0 {
			message := "this key is not known and is ignored"
			if hint := didYouMean(ident.Closest(f.name, allNames(keys))); hint != "" {
				message += "; " + hint
			}
			l.warn(f.position, path+"."+f.name, message)
			continue
		}
		k := keys[i]
		if f.value.kind == null {
			continue
		}
		if _, twice := given[k.name]; twice {
			l.problem(f.errorf(path+"."+f.name, "remove one of them", "it is another name of %s, which is given too", k.name))
			continue
		}
		given[k.name] = f.position
		s.entries = append(s.entries, serverEntry(k, f.value))
		value := f.value
		if !src.literal {
			var err error
			if value, err = expandNode(value, l.lookup); err != nil {
				s.Err = errors.Join(s.Err, fmt.Errorf("%s: %s: %w", f.value.position, k.path, err))
				if k.typ.Kind() != reflect.String && !k.composite() {
					continue // the text of a placeholder is no duration
				}
			}
		}
		if err := k.assign(dst.FieldByIndex(k.index), value); err != nil {
			l.problem(err)
		}
	}
	return given
}

// lookup finds a variable for ${VAR}.
func (l *loader) lookup(name string) (string, bool) {
	l.expanded[name] = true
	if l.e.GOOS == "windows" {
		if value, ok := l.environ.vars[strings.ToUpper(name)]; ok {
			return value, true
		}
	}
	if value, ok := l.environ.vars[name]; ok {
		return value, true
	}
	value, ok := l.dotenv.vars[name]
	return value, ok
}

// checkServer completes an entry and finds what contradicts itself in it.
func (l *loader) checkServer(s *MCPServer, path string, src serverSource, given map[string]position) {
	has := func(key string) bool { _, ok := given[key]; return ok }
	at := func(key string) position { return given[key] }

	switch s.Type {
	case "stdio", "local":
		s.Type = Stdio
	case "http", "streamable-http", "streamableHttp", "streamable_http", "remote":
		s.Type = HTTP
	case "sse":
		s.Type = SSE
	case "":
		if s.Type = Stdio; s.URL != "" {
			s.Type = HTTP
		}
	default:
		if s.Err == nil {
			hint := didYouMean(ident.Closest(s.Type, []string{Stdio, HTTP, SSE}))
			l.problem(at("type").errorf(path+".type", hint, "%q is not one of stdio, http, sse", s.Type))
			return
		}
	}
	switch {
	case s.Command == "" && s.URL == "":
		l.problem(src.errorf(path, "add command: (a program to start) or url:",
			"the server has neither a command nor a url"))
		return
	case s.Command != "" && s.URL != "":
		l.problem(at("url").errorf(path+".url", "keep one", "it contradicts command: a server is started here or runs elsewhere"))
		return
	case s.Type == Stdio && s.URL != "":
		l.problem(at("type").errorf(path+".type", "use http or sse, or give a command", "stdio contradicts url"))
		return
	case s.Type != Stdio && s.Command != "":
		l.problem(at("type").errorf(path+".type", "use stdio, or give a url", "%s contradicts command", s.Type))
		return
	}
	if has("enabled") && has("disabled") && s.Enabled == s.Disabled {
		l.problem(at("enabled").errorf(path+".enabled", "keep one", "it contradicts disabled"))
		return
	}
	s.Disabled = s.Disabled || !s.Enabled
	s.Enabled = !s.Disabled
	for _, tool := range s.EnabledTools {
		if slices.Contains(s.DisabledTools, tool) {
			l.problem(at("disabledTools").errorf(path+".disabledTools", "remove it from one of them", "%q is in enabledTools too", tool))
		}
	}
	if s.Type == Stdio {
		if has("headers") {
			l.warn(at("headers"), path+".headers", "a server that is started here has no use for headers")
		}
		l.stdioServer(s, src)
		return
	}
	for _, name := range [...]string{"args", "env", "envFile", "cwd"} {
		if has(name) {
			l.warn(at(name), path+"."+name, "a server with a url has no use for it")
		}
	}
	if s.Err != nil {
		return
	}
	if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		l.problem(at("url").errorf(path+".url", "", "it is not an address that begins with http:// or https://"))
	}
	for name, value := range s.Headers {
		if strings.ContainsAny(name, " :\r\n") || name == "" || strings.ContainsAny(value, "\r\n\x00") {
			l.problem(at("headers").errorf(path+".headers", "", "%q is not a header that can be sent", name))
		}
	}
}

// stdioServer resolves paths and reads envFile.
func (l *loader) stdioServer(s *MCPServer, src serverSource) {
	if s.Cwd == "" {
		s.Cwd = src.base
	}
	s.Cwd = absolute(s.Cwd, src.base, l.e.HomeDir)
	if strings.ContainsAny(s.Command, `/\`) && (l.e.GOOS == "windows" || strings.Contains(s.Command, "/")) {
		s.Command = absolute(s.Command, s.Cwd, l.e.HomeDir)
	}
	if s.EnvFile == "" || s.Err != nil {
		return
	}
	s.EnvFile = absolute(s.EnvFile, src.base, l.e.HomeDir)
	if !isFile(s.EnvFile) {
		s.Err = fmt.Errorf("%s: mcpServers.%s.envFile: there is no file %s", src.position, s.Name, s.EnvFile)
		return
	}
	vars, err := readDotenv(s.EnvFile)
	if err != nil {
		s.Err = err
		return
	}
	merged := maps.Clone(vars)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, s.Env)
	s.Env = merged
}
