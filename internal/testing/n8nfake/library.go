package n8nfake

import (
	"fmt"
	"net/http"
	"strings"
)

// Library imitates n8n's public template library, as its documentation describes it, for tests. It contains n templates, named "Template
// 1" and so on; those with an even number have a Slack node. The header X-Fake in every answer marks it as a fake.
func Library(n int) http.Handler {
	mux := http.NewServeMux()
	about := func(id int) map[string]any {
		kind, category := "n8n-nodes-base.httpRequest", "Engineering"
		if id%2 == 0 {
			kind, category = "n8n-nodes-base.slack", "Marketing"
		}
		return map[string]any{
			"id": id, "name": fmt.Sprint("Template ", id), "totalViews": id, "price": nil, "purchaseUrl": nil, "recentViews": 0,
			"createdAt": "2026-01-02T03:04:05.000Z", "user": map[string]any{"username": "somebody", "verified": true}, "description": "About " + category,
			"nodes": []any{map[string]any{"id": 1, "name": kind, "displayName": kind, "nodeCategories": []any{map[string]any{"id": 1, "name": category}}}},
		}
	}
	mux.HandleFunc("GET /templates/search", func(w http.ResponseWriter, r *http.Request) {
		page, rows := 1, 20
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		_, _ = fmt.Sscan(r.URL.Query().Get("rows"), &rows)
		category := strings.ToLower(r.URL.Query().Get("category"))
		found := []any{}
		for id := 1; id <= n; id++ {
			one := about(id)
			if category == "" || strings.HasSuffix(strings.ToLower(fmt.Sprint(one["description"])), category) {
				found = append(found, one)
			}
		}
		from := min((page-1)*rows, len(found))
		answer(w, 200, map[string]any{"totalWorkflows": len(found), "workflows": found[from:min(from+rows, len(found))], "filters": []any{}})
	})
	mux.HandleFunc("GET /templates/workflows/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := 0
		_, _ = fmt.Sscan(r.PathValue("id"), &id)
		if id < 1 || id > n {
			answer(w, 404, message("Workflow not found"))
			return
		}
		whole := about(id)
		kind := whole["nodes"].([]any)[0].(map[string]any)["name"]
		whole["workflow"] = map[string]any{
			"nodes": []any{
				map[string]any{"id": "1", "name": "Start", "type": "n8n-nodes-base.manualTrigger", "typeVersion": 1, "position": []any{0, 0}, "parameters": map[string]any{}},
				map[string]any{"id": "2", "name": "Do", "type": kind, "typeVersion": 1, "position": []any{200, 0}, "parameters": map[string]any{}},
				map[string]any{"id": "3", "name": "Note", "type": "n8n-nodes-base.stickyNote", "typeVersion": 1, "position": []any{0, 0}, "parameters": map[string]any{"content": "## Read me"}},
			},
			"connections": map[string]any{"Start": map[string]any{"main": []any{[]any{map[string]any{"node": "Do", "type": "main", "index": 0}}}}},
		}
		answer(w, 200, map[string]any{"workflow": whole})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Fake", "a fake library of templates for tests")
		mux.ServeHTTP(w, r)
	})
}
