package config

import (
	"maps"
	"slices"
	"strings"
)

// HideSecrets replaces what looks like a secret in a server's env, headers, security and arguments by ${secret:NAME} with a name that keep
// chooses. what is the name of the variable, header or option that has the value. Values with placeholders stay.
func HideSecrets(s *MCPServer, keep func(what, value string) (name string, err error)) (err error) {
	hide := func(what, value string) string {
		if err != nil {
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
		if value := s.Env[name]; isPlainSecret(name, value) {
			s.Env[name] = hide(name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value := s.Headers[name]
		scheme, rest, ok := strings.Cut(value, " ")
		if !ok || !schemeForm().MatchString(scheme) {
			scheme, rest = "", value
		}
		if isPlainSecret(name, rest) {
			s.Headers[name] = strings.TrimSpace(scheme + " " + hide(name, rest))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Security)) {
		if value := s.Security[name]; !strings.Contains(value, "${") {
			s.Security[name] = hide(name, value)
		}
	}
	option := ""
	for i, arg := range s.Args {
		name, value, joined := strings.Cut(arg, "=")
		header, content, isHeader := strings.Cut(arg, ":")
		switch {
		case option != "" && !strings.HasPrefix(arg, "-") && isPlainSecret(option, arg):
			s.Args[i] = hide(option, arg)
		case joined && isPlainSecret(name, value):
			s.Args[i] = name + "=" + hide(name, value)
		case isHeader && !strings.Contains(header, "/") && isPlainSecret(header, strings.TrimSpace(content)):
			s.Args[i] = header + ": " + hide(header, strings.TrimSpace(content))
		case isPlainSecret("", arg):
			s.Args[i] = hide("argument", arg)
		}
		option = ""
		if strings.HasPrefix(arg, "-") && !joined && isSecret(arg) {
			option = arg
		}
	}
	return err
}

// Secrets are the values in the env and the arguments of a server that look like secrets.
func (s *MCPServer) Secrets() (values []string) {
	of := &MCPServer{Env: maps.Clone(s.Env), Args: slices.Clone(s.Args)}
	_ = HideSecrets(of, func(_, value string) (string, error) { // which fails where this does
		values = append(values, value)
		return "hidden", nil
	})
	return values
}

var schemeForm = lazy(`^(?i:bearer|basic|token)$`)

// isPlainSecret reports whether a value is a secret that is written out.
func isPlainSecret(name, value string) bool {
	if value == "" || strings.Contains(value, "${") {
		return false
	}
	return isSecret(name) || looksSecret(value) || maskURL(value) != value
}

var secretRef = lazy(`\$\{secret:([A-Za-z0-9_.-]+)\}`)

// SecretsOf lists the names in ${secret:NAME} of the server of a name, as it stands in the configuration file at path; none if
// the file or the server is not there.
func SecretsOf(path, name string) (names []string) {
	_ = edit("read", path, func(d *document) error {
		if f, ok := d.server(name); ok {
			from, to := d.extent(f)
			for _, m := range secretRef().FindAllStringSubmatch(d.text[from:to], -1) {
				names = append(names, m[1])
			}
		}
		return errByHand // nothing is written
	})
	return names
}
