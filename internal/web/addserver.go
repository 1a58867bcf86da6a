package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"mcp-code-exec-harness/internal/clients"
	"mcp-code-exec-harness/internal/openapi"
	"mcp-code-exec-harness/internal/startup"
)

// addition has the input of the form that adds servers, and the outcome.
type addition struct {
	Name, Server string
	Added        []string // names of servers that were added
	Problems     []string // why other servers were not added, and what was left out
}

// addServer adds the servers that a text describes. A server that cannot be added does not stop the others.
func (v *visit) addServer() error {
	form := addition{Name: strings.TrimSpace(v.form("name")), Server: strings.TrimSpace(v.form("server"))}
	servers, err := newServers(form.Name, form.Server)
	if err != nil {
		form.Problems = []string{err.Error()}
	}
	status := http.StatusBadRequest
	for _, s := range servers {
		err := s.Err
		if err == nil {
			err = v.send(http.MethodPost, "/v1/servers", s.ask, nil)
		}
		refused, ok := errors.AsType[*refusal](err)
		if ok && refused.Status < http.StatusInternalServerError {
			status = refused.Status
		} else if err != nil && s.Err == nil {
			return err
		}
		if err != nil {
			form.Problems = append(form.Problems, s.name+": "+err.Error())
			continue
		}
		form.Added = append(form.Added, s.name)
		for _, note := range s.notes {
			form.Problems = append(form.Problems, s.name+": "+note)
		}
	}
	switch {
	case len(form.Problems) > 0 && len(form.Added) == len(servers) && len(servers) > 0:
		return v.showServers(http.StatusOK, form)
	case len(form.Problems) > 0:
		return v.showServers(status, form)
	case len(form.Added) == 1:
		return v.to(at("/servers/", form.Added[0]), "added")
	}
	return v.to("/servers", "added")
}

// newServer is a server that a text describes.
type newServer struct {
	name  string
	ask   serverRequest
	notes []string // differences from the configuration that the server has in another MCP client
	Err   error    // why the server cannot be added
}

// serverRequest is the body of a request that adds a server.
type serverRequest struct {
	Name      string            `json:"name"`
	Transport string            `json:"transport,omitempty"`
	URL       string            `json:"url,omitempty"`
	OpenAPI   string            `json:"openapi,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}

// newServers parses what a person pastes: the address of a server, an OpenAPI document or its address, or JSON in the format of other clients or registries.
func newServers(name, text string) ([]newServer, error) {
	address, _ := url.Parse(text)
	web := address != nil && address.Host != "" && (address.Scheme == "http" || address.Scheme == "https")
	switch document := openapi.IsDocument([]byte(text)) || web && documentAddress().MatchString(address.Path); {
	case text == "":
		return nil, errors.New("say which server: an address, or JSON")
	case name == "" && (web || document):
		return nil, errors.New("the server has no name")
	case document:
		return []newServer{{name: name, ask: serverRequest{Name: name, Transport: "openapi", OpenAPI: text}}}, nil
	case web:
		return []newServer{{name: name, ask: serverRequest{Name: name, URL: text}}}, nil
	}
	found, err := clients.Parse([]byte(text), clients.Options{Name: name})
	switch {
	case err != nil:
		return nil, fmt.Errorf("it is neither an address that begins with http:// or https://, nor an OpenAPI 3 document, nor the JSON of another client or a registry: %w", err)
	case len(found) == 0:
		return nil, errors.New("there is no server in it")
	}
	var all []newServer
	for _, s := range found {
		if name != "" && len(found) == 1 {
			s.Name = name
		}
		one := newServer{name: s.Name, notes: s.Notes, Err: s.Err}
		if one.Err == nil {
			one.ask, one.Err = addRequest(s)
		}
		all = append(all, one)
	}
	return all, nil
}

// documentAddress matches the path of an OpenAPI document.
var documentAddress = startup.Regexp(`(?i)(openapi|swagger)[^/]*$|\.(ya?ml|json)$`)

// addRequest returns the request that adds a server of another client. It returns an error if the request cannot express a setting, so that nothing is lost
// silently.
func addRequest(s clients.Server) (ask serverRequest, err error) {
	for key, set := range map[string]bool{
		"envFile": s.EnvFile != "", "cwd": s.Cwd != "", "inherit": len(s.Inherit) > 0, "timeout": s.Timeout != 0, "disabled": s.Disabled,
		"enabledTools": len(s.EnabledTools) > 0, "disabledTools": len(s.DisabledTools) > 0,
	} {
		if set {
			return ask, fmt.Errorf("%s is for the configuration only: use harness servers add", key)
		}
	}
	configured := serverRequest{Name: s.Name, Transport: s.Type, URL: s.URL, Headers: s.Headers, Command: s.Command, Args: s.Args, Env: s.Env}
	if s.Command != "" {
		configured.Transport = "stdio"
	}
	text, err := json.Marshal(configured)
	if err != nil {
		return ask, err
	}
	for _, dollar := range placeholders().FindAllString(string(text), -1) {
		if dollar == "${" {
			return ask, errors.New("variables such as ${TOKEN} are for the configuration only: write the value, or use harness servers add")
		}
	}
	err = json.Unmarshal(placeholders().ReplaceAll(text, []byte("$$")), &ask)
	return ask, err
}

// placeholders matches the beginning of a placeholder of the configuration, and the escaped dollar sign $$.
var placeholders = startup.Regexp(`\$\$|\$\{`)
