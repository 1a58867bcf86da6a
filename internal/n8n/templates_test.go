package n8n_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/testing/n8nfake"
)

const models = "n8n-templates"

type templateRow struct {
	ID, Name, Description, Source, Problem string
	Tags, NodeTypes                        []string
}

type templateRows struct{ Result []templateRow }

func (r templateRows) ids() []string {
	ids := make([]string, len(r.Result))
	for n := range r.Result {
		ids[n] = r.Result[n].ID
	}
	return ids
}

// withTemplates returns an instance with a folder of templates and a public library.
func withTemplates(t *testing.T) *n8n.Instance {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, v any) {
		t.Helper()
		data, err := json.Marshal(v)
		if text, is := v.(string); is {
			data = []byte(text)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	slack := echo("Slack notification", "notify")
	slack["nodes"] = append(slack["nodes"].([]any),
		object{"id": "s", "name": "Slack", "type": "n8n-nodes-base.slack", "typeVersion": 2.2, "position": []any{1, 2}, "parameters": object{"channelId": "#alerts"}},
		object{"id": "n", "name": "Note", "type": "n8n-nodes-base.stickyNote", "typeVersion": 1, "position": []any{1, 2}, "parameters": object{"content": "## Tells a channel of alerts"}})
	slack["tags"] = []any{object{"name": "Chat"}}
	write("slack-notification.json", slack)
	write("etl/nightly.json", []any{echo("Orders", "orders"), object{"workflow": echo("", "wrapped"), "name": "Wrapped"}})
	write("broken.json", "{")
	write("other.json", object{"a": 1})
	write("README.md", "no template")
	public := httptest.NewServer(n8nfake.Library(120))
	t.Cleanup(public.Close)
	api := httptest.NewServer(n8nfake.NewAPI())
	t.Cleanup(api.Close)
	return open(t, n8n.Options{URL: api.URL, APIKey: n8nfake.Key, Templates: dir, TemplateLibrary: public.URL})
}

// TestTemplates: the templates of the folder and of the instance are in one list, and a template can become a workflow.
func TestTemplates(t *testing.T) {
	t.Parallel()
	i := withTemplates(t)
	made := value[stored](t, i, flows, "create_workflow", echo("Stored", "stored"))
	all := value[templateRows](t, i, models, "list_templates", object{})
	if got, want := all.ids(), []string{"broken", "etl/nightly/1", "etl/nightly/2", "other", "slack-notification", "workflow:" + made.ID}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for _, row := range all.Result {
		if (row.Problem != "") != (row.ID == "broken" || row.ID == "other") || row.Name == "" || row.Source == "" {
			t.Errorf("listed %+v", row)
		}
	}
	if all.Result[2].Name != "Wrapped" || all.Result[4].Description != "Tells a channel of alerts" {
		t.Errorf("listed %+v", all)
	}
	if page := value[templateRows](t, i, models, "list_templates", object{"source": "folder", "limit": 2, "offset": 4}); !slices.Equal(page.ids(), []string{"slack-notification"}) {
		t.Errorf("a page: %q", page.ids())
	}
	if found := value[templateRows](t, i, models, "search_templates", object{"query": "send alerts to slack"}); len(found.Result) == 0 || found.Result[0].ID != "slack-notification" {
		t.Errorf("found %q", found.ids())
	}
	for _, kind := range []string{"slack", "n8n-nodes-base.slack", "Slack"} {
		if found := value[templateRows](t, i, models, "list_node_templates", object{"nodeType": kind}); !slices.Equal(found.ids(), []string{"slack-notification"}) {
			t.Errorf("with %s: %q", kind, found.ids())
		}
	}
	if found := value[templateRows](t, i, models, "search_by_metadata", object{"tags": []string{"chat"}, "nodeTypes": []string{"webhook"}}); !slices.Equal(found.ids(), []string{"slack-notification"}) {
		t.Errorf("by tag and type: %q", found.ids())
	}
	if found := value[templateRows](t, i, models, "search_by_metadata", object{"tags": []string{"chat", "mail"}}); len(found.Result) != 0 {
		t.Errorf("with both tags: %q", found.ids())
	}

	model := value[object](t, i, models, "get_template", object{"templateId": "slack-notification"})
	if model["workflow"] != nil || len(model["nodes"].([]any)) != 3 {
		t.Errorf("read %v", model)
	}
	whole := value[object](t, i, models, "get_template", object{"templateId": "slack-notification", "full": true})
	if len(whole["workflow"].(object)["nodes"].([]any)) != 4 {
		t.Errorf("read whole %v", whole)
	}
	copied := value[stored](t, i, flows, "create_workflow", object{"name": "Copy", "nodes": model["nodes"], "connections": model["connections"]})
	if len(copied.Nodes) != 3 {
		t.Errorf("made %+v", copied)
	}
	again := value[object](t, i, models, "get_template", object{"templateId": "workflow:" + copied.ID})
	if again["name"] != "Copy" || again["source"] != "instance" {
		t.Errorf("read %v", again)
	}
}

// TestPublicTemplates reads a library with more templates than one page holds.
func TestPublicTemplates(t *testing.T) {
	t.Parallel()
	i := withTemplates(t)
	public := object{"source": "public", "limit": 110, "offset": 7}
	all := value[templateRows](t, i, models, "list_templates", public)
	if len(all.Result) != 110 || all.Result[0].ID != "public:8" || all.Result[109].ID != "public:117" {
		t.Errorf("listed %d: %q", len(all.Result), all.ids())
	}
	found := value[templateRows](t, i, models, "search_by_metadata", object{"source": "public", "nodeTypes": []string{"slack"}, "tags": []string{"Marketing"}, "limit": 30})
	if len(found.Result) != 30 || found.Result[29].ID != "public:60" {
		t.Errorf("found %d: %q", len(found.Result), found.ids())
	}
	for _, id := range []string{"public:2", "2"} {
		model := value[object](t, i, models, "get_template", object{"templateId": id})
		if model["name"] != "Template 2" || len(model["nodes"].([]any)) != 2 || model["id"] != "public:2" {
			t.Errorf("read %v", model)
		}
	}
}

// TestTemplatesMissing: an error for missing templates names the remedy.
func TestTemplatesMissing(t *testing.T) {
	t.Parallel()
	i := withTemplates(t)
	bare, _ := fake(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	away := open(t, n8n.Options{URL: gone.URL, TemplateLibrary: gone.URL})
	for _, c := range []struct {
		of   *n8n.Instance
		tool string
		in   object
		want string
	}{
		{i, "get_template", object{"templateId": "nothing"}, "list_templates"},
		{i, "get_template", object{"templateId": "../slack-notification"}, "not found (404)"},
		{i, "get_template", object{"templateId": "public:999"}, "not found (404)"},
		{i, "get_template", object{"templateId": "public:../../etc"}, "numbers"},
		{i, "get_template", object{"templateId": "workflow:none"}, "not found (404)"},
		{i, "get_template", object{"templateId": "broken"}, "cannot be read"},
		{i, "search_by_metadata", object{}, "list_templates lists all"},
		{bare, "list_templates", object{"source": "folder"}, "n8n.templates"},
		{bare, "list_templates", object{"source": "public"}, "n8n.templateLibrary"},
		{away, "list_templates", object{"source": "public"}, "cannot be reached"},
	} {
		a := call(t, c.of, models, c.tool, c.in)
		if !a.IsError || !strings.Contains(a.Content[0].Text, c.want) {
			t.Errorf("%s %v: %+v, want %q", c.tool, c.in, a, c.want)
		}
	}
	if all := value[templateRows](t, away, models, "list_templates", object{}); len(all.Result) != 0 {
		t.Errorf("without key and folder: %q", all.ids())
	}
}
