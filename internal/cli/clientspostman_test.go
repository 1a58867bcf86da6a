package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The types describe a collection of Postman, version 2.1, which Insomnia imports as well.
type (
	postmanValue struct {
		Key         string `json:"key"`
		Value       string `json:"value"`
		Type        string `json:"type,omitempty"`
		Description string `json:"description,omitempty"`
		Disabled    bool   `json:"disabled,omitempty"`
	}
	postmanAuth struct {
		Type   string         `json:"type"`
		Bearer []postmanValue `json:"bearer,omitempty"`
	}
	postmanURL struct {
		Raw      string         `json:"raw"`
		Host     []string       `json:"host"`
		Path     []string       `json:"path"`
		Query    []postmanValue `json:"query,omitempty"`
		Variable []postmanValue `json:"variable,omitempty"`
	}
	postmanBody struct {
		Mode    string         `json:"mode"`
		Raw     string         `json:"raw"`
		Options map[string]any `json:"options,omitempty"`
	}
	postmanRequest struct {
		Method      string         `json:"method"`
		Header      []postmanValue `json:"header"`
		Auth        *postmanAuth   `json:"auth,omitempty"`
		URL         postmanURL     `json:"url"`
		Body        *postmanBody   `json:"body,omitempty"`
		Description string         `json:"description,omitempty"`
	}
	postmanItem struct {
		Name    string          `json:"name"`
		Request *postmanRequest `json:"request,omitempty"`
		Item    []postmanItem   `json:"item,omitempty"`
	}
	postmanCollection struct {
		Info struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      string `json:"schema"`
		} `json:"info"`
		Auth     postmanAuth    `json:"auth"`
		Variable []postmanValue `json:"variable"`
		Item     []postmanItem  `json:"item"`
	}
)

// postmanDocument is what a collection needs of an OpenAPI document.
type postmanDocument struct {
	Paths map[string]map[string]struct {
		OperationID, Summary, Description string
		Tags                              []string
		Security                          []map[string]any
		Parameters                        []struct {
			In, Name, Description string
			Required              bool
			Schema                struct{ Examples []any }
			Example               any
		}
		RequestBody struct {
			Content map[string]struct{ Example json.RawMessage }
		}
	}
}

// collection returns the collection of the operations, by their first tag.
func (d *postmanDocument) collection(t *testing.T) *postmanCollection {
	c := &postmanCollection{Auth: postmanAuth{"bearer", []postmanValue{{Key: "token", Value: "{{key}}", Type: "string"}}}}
	c.Info.Name, c.Info.Schema = "mcp-code-exec-harness", "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
	c.Info.Description = "The HTTP API, generated from its OpenAPI document. Set the variable key to an API key (harness keys create) or to what harness token prints. Other variables are ids, which answers have."
	variables := map[string]string{"url": "http://127.0.0.1:3000", "key": ""}
	folders := map[string]*postmanItem{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			r := &postmanRequest{Method: strings.ToUpper(method), Header: []postmanValue{}, Description: op.Description}
			r.URL = postmanURL{Raw: "{{url}}" + regexp.MustCompile(`\{(\w+)\}`).ReplaceAllString(path, ":$1"), Host: []string{"{{url}}"}}
			r.URL.Path = strings.Split(strings.TrimPrefix(r.URL.Raw, "{{url}}/"), "/")
			if len(op.Security) == 1 && len(op.Security[0]) == 0 {
				r.Auth = &postmanAuth{Type: "noauth"}
			}
			var query []string
			for _, p := range op.Parameters {
				v := postmanValue{Key: p.Name, Description: p.Description, Disabled: !p.Required}
				if len(p.Schema.Examples) > 0 {
					v.Value = fmt.Sprint(p.Schema.Examples[0])
				}
				switch p.In {
				case "header":
					r.Header = append(r.Header, v)
				case "query":
					if r.URL.Query = append(r.URL.Query, v); p.Required {
						query = append(query, v.Key+"="+v.Value)
					}
				default:
					// An id gets the name of its list: of /v1/tasks/{id} it is {{task}}.
					name := p.Name
					if before, _, ok := strings.Cut(path, "/{"+name+"}"); ok && (name == "id" || name == "name") {
						name = strings.TrimSuffix(filepath.Base(before), "s")
					}
					variables[name] = v.Value
					v.Value = "{{" + name + "}}"
					r.URL.Variable = append(r.URL.Variable, v)
				}
			}
			if len(query) > 0 {
				r.URL.Raw += "?" + strings.Join(query, "&")
			}
			for kind, of := range op.RequestBody.Content {
				r.Header = append(r.Header, postmanValue{Key: "Content-Type", Value: kind})
				r.Body = &postmanBody{Mode: "raw", Raw: "Hello."}
				if kind != "application/json" {
					continue
				}
				var pretty bytes.Buffer
				if err := json.Indent(&pretty, of.Example, "", "  "); err != nil {
					t.Errorf("%s has no example of its body: internal/api/examples.go (%v)", op.OperationID, err)
				}
				r.Body = &postmanBody{"raw", pretty.String(), map[string]any{"raw": map[string]string{"language": "json"}}}
			}
			if folders[op.Tags[0]] == nil {
				folders[op.Tags[0]] = &postmanItem{Name: op.Tags[0]}
			}
			folders[op.Tags[0]].Item = append(folders[op.Tags[0]].Item, postmanItem{Name: op.Summary, Request: r})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		c.Variable = append(c.Variable, postmanValue{Key: name, Value: variables[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		c.Item = append(c.Item, *folders[name])
	}
	return c
}

// refusedExamples are the requests of the collection whose bodies a server reads, and which it refuses, with the status: there is nothing to decide, and the
// credentials in the examples are none.
var refusedExamples = map[string]int{
	"POST /internal/mcp-call": 403, "POST /v1/security-keys": 403, "POST /v1/security-keys/questions": 403,
	"POST /v1/approvals/answers": 403, "POST /v1/approvals/questions": 400, "POST /v1/approvals/{id}": 404, "POST /v1/runs/{id}/calls/{n}/settle": 409,
	"POST /v1/servers/{name}/review": 409, "POST /v1/servers/{name}/review/answers": 403, "POST /v1/servers/{name}/review/questions": 409,
	"POST /v1/skill-proposals": 404, "POST /v1/skill-reviews": 409,
}

// TestClientsPostman checks that the collection in clients/postman is that of the server's document, has each operation once, and that a server accepts each
// body. go test -run TestClientsPostman -update writes it.
func TestClientsPostman(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.modelled(shopkeeper)
	f.addDemo("crm", "mailer")
	f.run("trust", f.dir).want(0)
	s := f.serve()
	resp, err := http.Get(s.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var d postmanDocument
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(d.collection(t)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(clientDir("postman"), "harness.postman_collection.json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(text, want.Bytes()) {
		t.Fatalf("%s is not what the document says (%v): go test ./internal/cli -run TestClientsPostman -update", file, err)
	}
	var c postmanCollection
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&c); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range c.Variable {
		values[v.Key] = v.Value
	}
	left := map[string]bool{}
	for path, operations := range d.Paths {
		for method := range operations {
			left[strings.ToUpper(method)+" "+path] = true
		}
	}
	key := strings.TrimSpace(f.run("token").want(0).stdout)
	made := map[string]string{"server": "crm", "path": "sales_summary.js"}
	for field, request := range map[string][]string{"run": {"/v1/runs", `{"userId": "alice", "code": "return await callMCPTool('crm__search', {})"}`, "runId"}, "session": {"/v1/sessions", `{"userId": "alice", "id": "tuesday"}`, "id"}} {
		_, answer := s.do("POST", request[0], request[1], "Authorization", "Bearer "+key)
		var got map[string]any
		if json.Unmarshal([]byte(answer), &got) != nil || got[request[2]] == nil {
			t.Fatalf("%s: %s", request[0], answer)
		}
		made[field] = got[request[2]].(string)
	}
	if status, answer := s.do("PUT", "/v1/skills/sales_summary.js?userId=alice", "exports.sum = (all) => all.length", "Authorization", "Bearer "+key, "Content-Type", "application/octet-stream"); status >= 300 {
		t.Fatal(status, answer)
	}
	for _, folder := range c.Item {
		if folder.Name == "" || len(folder.Item) == 0 || folder.Request != nil {
			t.Errorf("the folder %q has no requests", folder.Name)
		}
		for _, item := range folder.Item {
			r := item.Request
			path := strings.TrimPrefix(strings.Split(r.URL.Raw, "?")[0], "{{url}}")
			if r.URL.Host[0] != "{{url}}" || "/"+strings.Join(r.URL.Path, "/") != path {
				t.Errorf("%s: the parts of %s are %q %q", item.Name, r.URL.Raw, r.URL.Host, r.URL.Path)
			}
			operation := r.Method + " " + regexp.MustCompile(`/:(\w+)`).ReplaceAllString(path, "/{$1}")
			if !left[operation] {
				t.Errorf("%s is there twice, or not in the document", operation)
			}
			delete(left, operation)
			for _, v := range r.URL.Variable {
				name := strings.Trim(v.Value, "{}")
				if _, ok := values[name]; !ok {
					t.Errorf("%s: there is no variable %s", operation, v.Value)
				}
				value := made[name]
				if value == "" {
					value = values[name]
				}
				if value == "" {
					value = "1"
				}
				path = strings.ReplaceAll(path, ":"+v.Key, value)
			}
			if r.Body == nil {
				continue
			}
			headers := []string{"Authorization", "Bearer " + key, "Accept", "application/json, text/event-stream"}
			for _, h := range r.Header {
				if !h.Disabled {
					headers = append(headers, h.Key, h.Value)
				}
			}
			status, answer := s.do(r.Method, path, r.Body.Raw, headers...)
			if expected := refusedExamples[operation]; expected == 0 && status >= 300 || expected != 0 && (status != expected || strings.Contains(answer, "validation failed")) {
				t.Errorf("%s: %d %.300s", operation, status, answer)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("the collection lacks %v", left)
	}
}
