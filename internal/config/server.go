package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/trust"
)

// serverSource is an entry of mcpServers as written, before it is checked.
type serverSource struct {
	field
	base    string // folder that relative paths are resolved against
	literal bool   // ${VAR} is not expanded, because the values already come from variables
}

// expand replaces the placeholders in n. It keeps and reports those that it cannot replace.
func (l *loader) expand(path string, n node, report func(*Error)) node {
	text, err := expand(n.text, l.lookup, l.secret)
	if err != nil {
		report(n.errorf(path, "", "%v", err))
	} else {
		n.text = text
	}
	n.list, n.keys = slices.Clone(n.list), slices.Clone(n.keys)
	for i, item := range n.list {
		n.list[i] = l.expand(path, item, report)
	}
	for i, f := range n.keys {
		n.keys[i].value = l.expand(path+"."+f.name, f.value, report)
	}
	return n
}

// secretPrefix precedes the name of a secret in ${secret:NAME}.
const secretPrefix = "secret:"

// secret returns the value of ${secret:NAME}. If no such secret exists, the error matches fs.ErrNotExist.
func (l *loader) secret(name string) (string, error) {
	if l.e.Secret == nil || l.config.File == "" {
		return "", fs.ErrNotExist
	}
	value, err := l.e.Secret(name, trust.Path(l.config.File))
	if err == nil {
		l.kept = append(l.kept, value)
	}
	return value, err
}

// lookup returns the value of the variable in ${VAR}.
func (l *loader) lookup(name string) (string, bool) {
	l.expanded[name] = true
	if value, ok := l.environ.vars[strings.ToUpper(name)]; ok && l.e.GOOS == "windows" {
		return value, true
	}
	if value, ok := l.environ.vars[name]; ok {
		return value, true
	}
	value, ok := l.dotenv.vars[name]
	return value, ok
}

func (l *loader) addServer(name string, src serverSource) *Error {
	path := "mcpServers." + name
	if problem := serverName(name); problem != "" {
		return src.errorf(path, "", "%s", problem)
	}
	for _, other := range l.config.MCPServers {
		if fold(other.Name) == fold(name) {
			return src.errorf(path, "rename one", "programs cannot tell it from %s: case, - and _ do not count in names", other.Name)
		}
	}
	if src.value.kind != mapping {
		return src.value.errorf(path, "write command: or url: below it", "it must be a mapping, not %s", src.value.kind)
	}
	s := &MCPServer{Name: name}
	l.config.MCPServers = append(l.config.MCPServers, s)
	before := len(l.problems)
	given := l.readServer(s, path, src)
	if len(l.problems) > before {
		return nil
	}
	return l.checkServer(s, path, src, given)
}

func serverName(name string) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_. "
	switch {
	case name == "" || len(name) > 64:
		return "the name of a server must have 1 to 64 characters"
	case strings.Trim(name, allowed) != "" || strings.Trim(name, "-_. ") == "" || strings.TrimSpace(name) != name:
		return "the name of a server may have letters, digits, spaces and - _ . only"
	case ident.Fold(name) == "pii":
		return "the name of a server may not be pii, which stands for the questions of programs about personal data"
	case ident.Fold(name) == "session":
		return "the name of a server may not be session, which stands for the files of sessions in rules of policy"
	case strings.Contains(name, "__"):
		return "the name of a server may not have __, which separates it from its tools"
	}
	return ""
}

// readServer assigns the keys of an entry and returns the keys that the entry sets, by name.
func (l *loader) readServer(s *MCPServer, path string, src serverSource) map[string]field {
	keys := keysOf(reflect.ValueOf(s).Elem(), "")
	for _, k := range keys {
		k.assignDefault()
	}
	given := map[string]field{}
	if f, ok := src.value.get("sandbox"); ok && f.value.kind == null {
		l.problem(f.errorf(path+".sandbox", "write {} for no network and no files", "it is empty"))
	}
	for _, m := range match(src.value, path+".", keys, l.problem, func(f field) {
		l.warn(f.position, path+"."+f.name, "this key is not known and is ignored", didYouMean(ident.Closest(f.name, namesOf(keys, true))))
	}) {
		k, value := m.key, m.value
		given[k.path] = m.field
		k.path = path + "." + k.path
		s.entries = append(s.entries, serverEntry(k, value))
		var unset bool
		if !src.literal {
			l.kept = nil
			value = l.expand(k.path, value, func(err *Error) { s.Err, unset = errors.Join(s.Err, err), true })
		}
		s.kept = append(s.kept, l.kept...)
		if unset && k.typ.Kind() != reflect.String && !k.composite() {
			continue // assign would report the placeholder too
		}
		l.problem(k.assign(value))
	}
	return given
}

// transports maps the values of the key type to transports. Without the key type, the other keys decide the transport.
var transports = map[string]string{
	"stdio": Stdio, "local": Stdio, "sse": SSE,
	"openapi": OpenAPI, "http": HTTP, "streamable-http": HTTP, "streamableHttp": HTTP, "streamable_http": HTTP, "remote": HTTP,
}

// checkServer completes an entry and reports contradictions in it.
func (l *loader) checkServer(s *MCPServer, path string, src serverSource, given map[string]field) *Error {
	wrong := func(key, hint, format string, args ...any) *Error {
		return given[key].errorf(path+"."+key, hint, format, args...)
	}
	transport, known := transports[s.Type]
	switch {
	case known:
		s.Type = transport
	case s.Type == "" && s.OpenAPI != "":
		s.Type = OpenAPI
	case s.Type == "" && s.URL == "":
		s.Type = Stdio
	case s.Type == "":
		s.Type, s.Guessed = HTTP, true
	case s.Err == nil:
		return wrong("type", didYouMean(ident.Closest(s.Type, []string{Stdio, HTTP, SSE, OpenAPI})), "%q is not one of stdio, http, sse, openapi", s.Type)
	}
	switch {
	case s.Command == "" && s.URL == "" && s.OpenAPI == "":
		return src.errorf(path, "add command: (a program to start) or url:", "the server has neither a command nor a url")
	case s.Command != "" && s.OpenAPI != "":
		return wrong("openapi", "keep one", "it contradicts command: a server is started here or is an HTTP service")
	case s.OpenAPI != "" && s.Type != OpenAPI:
		return wrong("type", "remove it", "%s contradicts openapi", s.Type)
	case s.OpenAPI == "" && s.Type == OpenAPI:
		return wrong("type", "give the document in openapi", "openapi needs a document")
	case s.OpenAPI == "" && len(s.Security) > 0:
		return wrong("security", "use headers", "security schemes are those of an OpenAPI document")
	case s.Command != "" && s.URL != "":
		return wrong("url", "keep one", "it contradicts command: a server is started here or runs elsewhere")
	case s.Type == Stdio && s.URL != "":
		return wrong("type", "use http or sse, or give a command", "stdio contradicts url")
	case s.Auth != nil && s.Command != "":
		return wrong("auth", "give the server its credentials in env", "it contradicts command: only requests to a url are authorized")
	case s.Sandbox != nil && s.Command == "":
		return wrong("sandbox", "remove it", "it contradicts url: only a server that is started here has a sandbox")
	case s.Type != Stdio && s.Command != "":
		return wrong("type", "use stdio, or give a url", "%s contradicts command", s.Type)
	}
	if given["enabled"].name != "" && given["disabled"].name != "" && s.Enabled == s.Disabled {
		return wrong("enabled", "keep one", "it contradicts disabled")
	}
	s.Disabled = s.Disabled || !s.Enabled
	s.Enabled = !s.Disabled
	for _, tool := range s.EnabledTools {
		if slices.Contains(s.DisabledTools, tool) {
			return wrong("disabledTools", "remove it from one of them", "%q is in enabledTools too", tool)
		}
	}
	for tool, paths := range s.Destinations {
		if err := policy.CheckDestinations(paths); err != nil {
			return wrong("destinations", "", "%s: %v", tool, err)
		}
	}
	for tool, paths := range s.Languages {
		for at, l := range paths {
			if _, err := languageSetting(s.Name, tool, at, l); err != nil {
				return wrong("languages", "", "%s: %v", tool, err)
			}
		}
	}
	useless, why := []string{"args", "env", "inherit", "envFile", "cwd"}, "a server with a url has no use for it"
	if s.Type == Stdio {
		useless, why = []string{"headers"}, "a server that is started here has no use for headers"
	}
	for _, name := range useless {
		if f, ok := given[name]; ok {
			l.warn(f.position, path+"."+name, why, "")
		}
	}
	switch {
	case s.Type == Stdio:
		l.stdioServer(s, src)
	case s.Err != nil:
	case s.URL != "" && !isWebAddress(s.URL):
		return wrong("url", "", notWebAddress)
	case s.Auth != nil && s.URL == "" && !isWebAddress(s.OpenAPI):
		return wrong("auth", "give url, the address of the service", "it is not known where the credentials go")
	default:
		if s.OpenAPI != "" && !isWebAddress(s.OpenAPI) {
			s.OpenAPI = absolute(s.OpenAPI, src.base, l.e.HomeDir)
		}
		for name, value := range s.Headers {
			if strings.ContainsAny(name, " :\r\n") || name == "" || strings.ContainsAny(value, "\r\n\x00") {
				return wrong("headers", "", "%q is not a header that can be sent", name)
			}
			if s.Auth != nil && strings.EqualFold(name, s.Auth.Header) {
				return wrong("headers", "remove one", "%s is what auth sets", name)
			}
		}
		if s.Auth != nil {
			return l.checkAuth(s, given["auth"], path+".auth")
		}
	}
	return nil
}

// checkAuth reports contradictions in the section auth of a server.
func (l *loader) checkAuth(s *MCPServer, f field, path string) *Error {
	a := s.Auth
	needs := map[string][]string{
		"oauth":   {"per", "grant", "clientId", "clientSecret", "issuer", "scopes", "redirectPort", "allowPrivate"},
		"command": {"command", "args", "cacheFor", "header"},
		"keys":    {"keys", "header"},
	}[a.Type]
	for _, given := range f.value.keys {
		if given.name != "type" && !slices.Contains(needs, given.name) {
			return given.errorf(path+"."+given.name, "remove it", "it has no meaning with type: %s", a.Type)
		}
	}
	u, err := url.Parse(cmp.Or(s.URL, s.OpenAPI))
	if err != nil {
		return f.errorf(path, "", "%s", notWebAddress)
	}
	host := u.Hostname()
	local := host == "localhost" || net.ParseIP(host).IsLoopback()
	switch {
	case u.Scheme != "https" && !local:
		return f.errorf(path, "use an https url", "credentials are not sent to %s without TLS", host)
	case a.Type == "oauth" && a.ClientSecret != "" && a.ClientID == "":
		return f.errorf(path+".clientSecret", "give clientId too", "a secret without a client")
	case a.Type == "oauth" && a.ClientSecret != "" && a.Issuer == "":
		return f.errorf(path+".clientSecret", "give issuer too, the authorization server that it belongs to", "the server could name any authorization server, which would get it")
	case a.Machine() && (a.ClientSecret == "" || a.Per == "user" || a.RedirectPort != 0):
		return f.errorf(path+".grant", "give clientId, clientSecret and issuer, and remove per and redirectPort", "with client_credentials the client gets tokens for itself")
	case a.Type == "command" && a.Command == "":
		return f.errorf(path+".command", "give the program", "type: command needs it")
	case a.Type == "keys" && len(a.Keys) == 0:
		return f.errorf(path+".keys", "write USER: KEY below it", "type: keys needs it")
	case a.Header == "" || strings.ContainsAny(a.Header, " :\r\n"):
		return f.errorf(path+".header", "", "%q is not a header that can be sent", a.Header)
	}
	for _, key := range a.Keys {
		if strings.ContainsAny(key, "\r\n\x00") || key == "" {
			return f.errorf(path+".keys", "", "a key is empty or has more than one line")
		}
	}
	if strings.ContainsAny(a.Command, `/\`) && (l.e.GOOS == "windows" || strings.Contains(a.Command, "/")) {
		a.Command = absolute(a.Command, filepath.Dir(l.config.File), l.e.HomeDir)
	}
	return nil
}

// stdioServer resolves the paths of a server that is a program, and reads its envFile.
func (l *loader) stdioServer(s *MCPServer, src serverSource) {
	s.Cwd = absolute(cmp.Or(s.Cwd, src.base), src.base, l.e.HomeDir)
	if strings.ContainsAny(s.Command, `/\`) && (l.e.GOOS == "windows" || strings.Contains(s.Command, "/")) {
		s.Command = absolute(s.Command, s.Cwd, l.e.HomeDir)
	}
	if s.Sandbox != nil && s.Err == nil {
		l.sandbox(s, src)
	}
	if s.EnvFile == "" || s.Err != nil || l.preview {
		return
	}
	s.EnvFile = absolute(s.EnvFile, src.base, l.e.HomeDir)
	if err := disk.Exposed(s.EnvFile, l.files.owners...); err != nil {
		s.Err = src.errorf("mcpServers."+s.Name+".envFile", "", "%v", err)
		return
	}
	vars, err := readDotenv(s.EnvFile)
	switch {
	case err != nil:
		s.Err = err
	case vars == nil:
		s.Err = src.errorf("mcpServers."+s.Name+".envFile", "", "there is no file %s", s.EnvFile)
	default:
		maps.Copy(vars, s.Env)
		s.Env = vars
	}
}

// sandbox resolves the paths of a server's sandbox. The server becomes unusable if it could change the harness's own files.
func (l *loader) sandbox(s *MCPServer, src serverSource) {
	for _, paths := range [][]string{s.Sandbox.Read, s.Sandbox.Write} {
		for i, path := range paths {
			paths[i] = absolute(path, src.base, l.e.HomeDir)
		}
	}
	key := "mcpServers." + s.Name + ".sandbox"
	plan, err := s.Sandbox.Confine().Resolve()
	if err != nil {
		s.Err = src.errorf(key, "", "%v", err)
		return
	}
	for _, own := range []string{l.config.File, l.config.StateDir} {
		if own == "" {
			continue
		}
		switch read, write := plan.Reaches(own); {
		case write:
			s.Err = src.errorf(key+".write", "name directories beside it", "the server could change %s, which is the harness's own", own)
			return
		case read:
			l.warn(src.position, key+".read", fmt.Sprintf("the server can read %s, which is the harness's own", own), "")
		}
	}
}

// lazy compiles a regular expression on first use, because every worker process initializes this package.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	placeholderForm = lazy(`\$\$|\$\{[^}]*\}?`)
	variableForm    = lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// expand replaces ${VAR}, ${VAR:-default} and ${env:VAR} by the values of variables, ${secret:NAME} by a secret kept on this machine, and $$ by $. Everything else
// stays, including $VAR and the backslashes of a Windows path. The default applies if the variable is unset or empty. Without a default, an unset variable is an
// error and an empty one is not.
// and the backslashes of a Windows path. The default applies if the variable is unset or empty. Without a default, an unset variable is an
// error and an empty one is not.
func expand(text string, lookup func(string) (string, bool), secret func(string) (string, error)) (_ string, err error) {
	text = placeholderForm().ReplaceAllStringFunc(text, func(found string) string {
		value, failed := substitute(found, lookup, secret)
		err = cmp.Or(err, failed)
		return value
	})
	return text, err
}

func substitute(placeholder string, lookup func(string) (string, bool), secret func(string) (string, error)) (string, error) {
	if placeholder == "$$" {
		return "$", nil
	}
	inner, closed := strings.CutSuffix(placeholder[len("${"):], "}")
	if !closed {
		return "", fmt.Errorf("a ${ is not closed; write $${ for the characters themselves")
	}
	inner, fallback, hasDefault := strings.Cut(inner, ":-")
	if name, ok := strings.CutPrefix(inner, secretPrefix); ok {
		value, err := secret(name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the secret %s is not kept on this machine; give it again (harness servers add --replace), or write ${VARIABLE}", name)
		}
		return value, err
	}
	name := strings.TrimPrefix(inner, "env:")
	if strings.Contains(name, ":") {
		return "", fmt.Errorf("${%s} is not known here; set a variable and write ${NAME}", name)
	}
	if !variableForm().MatchString(name) {
		return "", fmt.Errorf("${%s} does not name a variable; write $${ for the characters themselves", name)
	}
	value, set := lookup(name)
	switch {
	case value == "" && hasDefault:
		return fallback, nil
	case !set:
		return "", fmt.Errorf("the variable %s is not set; set it in the environment or in .env, or write ${%[1]s:-default}", name)
	}
	return value, nil
}
