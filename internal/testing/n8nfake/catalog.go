package n8nfake

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed catalog.yaml
var catalogText []byte

// Credentials of the only user that the fake accepts.
const (
	Email    = "owner@example.com"
	Password = "password-of-the-fake-n8n"
)

// catalog returns the descriptions of the nodes in catalog.yaml.
func catalog() []map[string]any {
	var all map[string]map[string]any
	if err := yaml.Unmarshal(catalogText, &all); err != nil {
		panic(fmt.Sprintf("catalog.yaml: %v", err))
	}
	nodes := make([]map[string]any, 0, len(all))
	for name, n := range all {
		short := name[strings.LastIndexByte(name, '.')+1:]
		n["name"], n["displayName"], n["description"], n["version"] = name, short, n["about"], n["versions"]
		list, _ := n["versions"].([]any)
		n["defaultVersion"] = list[len(list)-1]
		for key, value := range map[string]any{"group": []any{"transform"}, "inputs": []any{"main"}, "outputs": []any{"main"}, "properties": []any{}} {
			if n[key] == nil {
				n[key] = value
			}
		}
		spell(n["properties"])
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return nodes
}

// spell converts properties to n8n's form: it adds display names, and turns choices into objects.
func spell(properties any) {
	list, _ := properties.([]any)
	for _, v := range list {
		p, is := v.(map[string]any)
		if !is {
			continue
		}
		p["displayName"] = p["name"]
		options, _ := p["options"].([]any)
		for i, o := range options {
			if choice, is := o.(string); is {
				options[i] = map[string]any{"name": choice, "value": choice}
			}
		}
		spell(options)
		if group, is := p["values"]; is {
			spell(group)
		}
	}
}

// describe adds the endpoints for users who log in: descriptions of nodes, and the list of credentials.
func (a *API) describe() {
	a.mux.HandleFunc("POST /rest/login", func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		_ = json.NewDecoder(r.Body).Decode(&in) // an unreadable body fails the login
		if in["emailOrLdapLoginId"] != Email || in["password"] != Password {
			answer(w, 401, message("Wrong username or password. Do you have caps lock on?"))
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "n8n-auth", Value: "a", Path: "/", HttpOnly: true})
		answer(w, 200, map[string]any{"data": map[string]any{"email": Email}})
	})
	a.mux.HandleFunc("GET /rest/settings", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"data": map[string]any{"versionCli": "1.123.0-fake"}})
	})
	a.mux.HandleFunc("GET /types/nodes.json", loggedIn(func() any { return catalog() }))
	a.mux.HandleFunc("GET /rest/credentials", loggedIn(func() any {
		a.mu.Lock()
		defer a.mu.Unlock()
		return map[string]any{"data": append([]map[string]any{}, a.credentials...)}
	}))
}

func loggedIn(body func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("n8n-auth"); err != nil {
			answer(w, 401, message("Unauthorized"))
			return
		}
		answer(w, 200, body())
	}
}

// Credentials adds credentials of the type kind.
func (a *API) Credentials(id, name, kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credentials = append(a.credentials, map[string]any{"id": id, "name": name, "type": kind})
}
