package clients

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/config"
)

// registered converts a server.json of the public registry of MCP servers. It takes the first package that can be started here, else the first
// remote. Variables without a value become placeholders.
func registered(root object, name string) (Server, error) {
	s := Server{MCPServer: &config.MCPServer{Enabled: true, StartupTimeout: time.Minute, Env: map[string]string{}, Headers: map[string]string{}}}
	full, _ := root["name"].(string)
	s.Name = s.cleanName(cmp.Or(name, full[strings.LastIndex(full, "/")+1:]))
	r := &reader{notes: &s.Notes}
	for _, one := range list(root["packages"]) {
		p, _ := one.(object)
		if s.pack(r, p) {
			for _, one := range list(p["environmentVariables"]) {
				s.input(r, one, s.Env)
			}
			return s, r.err
		}
	}
	for _, one := range list(root["remotes"]) {
		remote, _ := one.(object)
		kind := str(remote, "type", "transport_type")
		if kind != "streamable-http" && kind != "sse" {
			continue
		}
		s.URL, s.Type = r.expand(str(remote, "url")), map[string]string{"streamable-http": "http", "sse": "sse"}[kind]
		for _, one := range list(remote["headers"]) {
			s.input(r, one, s.Headers)
		}
		return s, r.err
	}
	return s, errors.New("it has no package that can be started here (npm, pypi, oci) and no remote")
}

// pack sets the command that starts a package. It returns false if the kind of the package is unknown, or if the package is no stdio server.
func (s *Server) pack(r *reader, p object) bool {
	id, version := str(p, "identifier", "name"), str(p, "version")
	if transport, ok := p["transport"].(object); ok && str(transport, "type") != "stdio" || id == "" {
		return false
	}
	at := func(separator string) string {
		if version == "" || strings.Contains(id[1:], separator) {
			return id
		}
		return id + separator + version
	}
	switch str(p, "registryType", "registry_type", "registry_name") {
	case "npm":
		s.Command, s.Args = "npx", append(s.arguments(r, p["runtimeArguments"]), "-y", at("@"))
	case "pypi":
		s.Command, s.Args = "uvx", append(s.arguments(r, p["runtimeArguments"]), at("=="))
	case "oci", "docker":
		s.Command, s.Args = "docker", append([]string{"run", "-i", "--rm"}, s.arguments(r, p["runtimeArguments"])...)
		for _, one := range list(p["environmentVariables"]) {
			if v, ok := one.(object); ok {
				s.Args = append(s.Args, "-e", str(v, "name"))
			}
		}
		s.Args = append(s.Args, at(":"))
	default:
		return false
	}
	s.Args = append(s.Args, s.arguments(r, p["packageArguments"])...)
	return true
}

// arguments returns those arguments of a package that have a value or need one.
func (s *Server) arguments(r *reader, v any) (all []string) {
	for _, one := range list(v) {
		a, _ := one.(object)
		value := str(a, "value", "default")
		name := str(a, "name")
		required, _ := a["isRequired"].(bool)
		if value == "" && required {
			hint := cmp.Or(str(a, "valueHint"), strings.TrimLeft(name, "-"), "argument")
			value = "${" + strings.ToUpper(strings.Trim(notVariable().ReplaceAllString(hint, "_"), "_")) + "}"
			s.Notes = append(s.Notes, fmt.Sprintf("the argument %s needs a value; replace %s in harness.yaml", hint, value))
		} else {
			value = r.expand(value)
		}
		switch {
		case str(a, "type") == "named" && value != "":
			all = append(all, name, value)
		case str(a, "type") == "named" && name != "" && required:
			all = append(all, name)
		case value != "":
			all = append(all, value)
		}
	}
	return all
}

// input puts a variable or header into a mapping.
func (s *Server) input(r *reader, v any, into map[string]string) {
	m, _ := v.(object)
	name := str(m, "name")
	required, _ := m["isRequired"].(bool)
	secret, _ := m["isSecret"].(bool)
	value := r.expand(str(m, "value", "default"))
	if name == "" || value == "" && !required && !secret {
		return
	}
	if value == "" || strings.ContainsAny(value, "{}") && !strings.Contains(value, "${") { // a template such as Bearer {token}
		variable := strings.ToUpper(strings.Trim(notVariable().ReplaceAllString(name, "_"), "_"))
		optional := ""
		if !required {
			optional = ":-"
		} else {
			s.Notes = append(s.Notes, fmt.Sprintf("set the variable %s: %s", variable, cmp.Or(str(m, "description"), "the server needs it")))
		}
		value = "${" + variable + optional + "}"
	}
	into[name] = value
}

// str returns the first text under one of the keys.
func str(m object, keys ...string) string {
	for _, key := range keys {
		if text, ok := m[key].(string); ok && text != "" {
			return text
		}
	}
	return ""
}
