package config

import (
	"maps"
	"slices"
	"strings"
)

// HideSecrets replaces secrets of a server by ${secret:NAME}: values that look like secrets in its env, headers, security, arguments and addresses.
// keep returns the NAME for a value. The first argument of keep names the variable, header or option that holds the value. Values with placeholders
// stay unchanged.
func HideSecrets(s *MCPServer, keep func(what, value string) (name string, err error)) (err error) {
	hide := func(what, value string) string {
		if err != nil || strings.Contains(value, "${") {
			return value
		}
		name, failed := keep(what, value)
		if failed != nil {
			err = failed
			return value
		}
		return "${" + secretPrefix + name + "}"
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if value := s.Env[name]; IsSecret(name, value) {
			s.Env[name] = hide(name, value)
		} else {
			s.Env[name] = withoutSecrets(value, hide)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = headerValue(name, s.Headers[name], hide)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Security)) {
		s.Security[name] = hide(name, s.Security[name])
	}
	s.Args = argsWithout(s.Args, hide)
	s.URL, s.OpenAPI = withoutSecrets(s.URL, hide), withoutSecrets(s.OpenAPI, hide)
	return err
}

// Transport returns the transport of the server; empty means that it has to be detected.
func (s *MCPServer) Transport() string {
	if s.Guessed {
		return ""
	}
	return s.Type
}

// Secrets returns the values in a server's env, arguments and addresses that look like secrets, and the values of ${secret:NAME}.
func (s *MCPServer) Secrets() (values []string) {
	of := &MCPServer{Env: maps.Clone(s.Env), Args: s.Args, URL: s.URL, OpenAPI: s.OpenAPI}
	_ = HideSecrets(of, func(_, value string) (string, error) { // HideSecrets fails only if this function does
		values = append(values, value)
		return "hidden", nil
	})
	return append(values, s.kept...)
}

// argsWithout returns arguments with every secret replaced: values of options whose names suggest a secret (--api-key X, --token=X),
// headers, credentials in addresses, and texts that look like keys. The first argument of replace names the option or header that holds the
// value.
func argsWithout(args []string, replace func(what, value string) string) []string {
	out := make([]string, len(args))
	option := ""
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		header, content, isHeader := strings.Cut(arg, ":")
		user, password, isUser := strings.Cut(arg, ":")
		switch {
		case option != "" && !strings.HasPrefix(arg, "-") && IsSecret(option, arg):
			out[i] = replace(option, arg)
		case (option == "-u" || option == "--user") && isUser && password != "" && !strings.Contains(arg, "://"):
			out[i] = user + ":" + replace(option, password)
		case looksSecret(arg):
			out[i] = replace("argument", arg)
		case joined && !strings.Contains(name, "://") && (IsSecret(name, value) || looksSecret(value)):
			out[i] = name + "=" + replace(name, value)
		case isHeader && !strings.Contains(header, "/") && IsSecret(header, strings.TrimSpace(content)):
			out[i] = header + ": " + headerValue(header, strings.TrimSpace(content), replace)
		default:
			out[i] = withoutSecrets(arg, replace)
		}
		option = ""
		if strings.HasPrefix(arg, "-") && !joined {
			option = arg
		}
	}
	return out
}

// headerValue returns the value of a header after its secret is replaced; the name of the authentication scheme stays.
func headerValue(name, value string, replace func(what, value string) string) string {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok || !schemeForm().MatchString(scheme) {
		scheme, rest = "", value
	}
	if !IsSecret(name, rest) && !looksSecret(rest) {
		return withoutSecrets(value, replace)
	}
	return strings.TrimSpace(scheme + " " + replace(name, rest))
}

// withoutSecrets returns a text with its secrets replaced. If the text contains an address, these are the password and the secret parameters of the
// address. If the whole text looks like a key, all of it is replaced.
func withoutSecrets(text string, replace func(what, value string) string) string {
	if looksSecret(text) {
		return replace("value", text)
	}
	at := addressForm().FindStringIndex(text)
	if at == nil {
		return text
	}
	before, address := text[:at[0]], text[at[0]:]
	if m := passwordForm().FindStringSubmatchIndex(address); m != nil {
		address = address[:m[2]] + replace("password", address[m[2]:m[3]]) + address[m[3]:]
	}
	head, query, ok := strings.Cut(address, "?")
	if !ok {
		return before + address
	}
	query, fragment, _ := strings.Cut(query, "#")
	params := strings.Split(query, "&")
	for i, p := range params {
		if name, value, ok := strings.Cut(p, "="); ok && (IsSecret(name, value) || looksSecret(value)) {
			params[i] = name + "=" + replace(name, value)
		}
	}
	address = head + "?" + strings.Join(params, "&")
	if fragment != "" {
		address += "#" + fragment
	}
	return before + address
}

var (
	schemeForm = lazy(`^(?i:bearer|basic|token)$`)
	// addressForm matches the beginning of an address, such as postgres:// in --url=postgres://…
	addressForm = lazy(`[A-Za-z][A-Za-z0-9+.-]*://`)
	// passwordForm matches the password in an address. The password ends at the last @ before the path.
	passwordForm = lazy(`^[^:]+://[^:/?#]*:((?:[^/?#]|\$\{[^}]*\})+)@`)
)

var secretRef = lazy(`\$\{secret:([A-Za-z0-9_.-]+)\}`)

// SecretsOf lists the names in ${secret:NAME} of the named server in the configuration file at path. The list is empty if the file or the
// server does not exist.
func SecretsOf(path, name string) (names []string) {
	d, _, err := open(path)
	if err != nil {
		return nil
	}
	if f, ok := d.server(name); ok {
		from, to := d.extent(f)
		for _, m := range secretRef().FindAllStringSubmatch(d.text[from:to], -1) {
			names = append(names, m[1])
		}
	}
	return names
}
