package n8nfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Outcome describes how an execution ends.
type Outcome struct {
	Node, Message string // failed node and error message; empty means success
	Item          int
	Output        any    // return value of the last node
	Running       bool   // the execution does not end
	Unkept        bool   // the execution is not stored
	After         func() // called after the start of the execution; may be nil
}

// Ends sets the function that determines how executions end from now on.
func (a *API) Ends(with func(workflow map[string]any) Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcome = with
}

// LastQuery returns the query of the last webhook call.
func (a *API) LastQuery() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastQuery
}

// Started returns the number of started executions.
func (a *API) Started() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started
}

func (a *API) executions() {
	a.mux.HandleFunc("/webhook/{path...}", a.webhook)
	a.mux.HandleFunc("GET /api/v1/executions", a.listExecutions)
	a.mux.HandleFunc("GET /api/v1/executions/{id}", a.execution(func(e map[string]any, r *http.Request) (int, any) {
		return 200, without(e, r.URL.Query().Get("includeData") != "true")
	}))
	a.mux.HandleFunc("DELETE /api/v1/executions/{id}", a.execution(func(e map[string]any, _ *http.Request) (int, any) {
		a.ended = slices.DeleteFunc(a.ended, func(o map[string]any) bool { return o["id"] == e["id"] })
		return 200, without(e, true)
	}))
	a.mux.HandleFunc("POST /api/v1/executions/{id}/retry", a.execution(func(e map[string]any, _ *http.Request) (int, any) {
		w := a.workflows[fmt.Sprint(e["workflowId"])]
		if w == nil {
			return 404, message("Not Found")
		}
		again := a.start(w, nil, a.ends(w))
		again["mode"], again["retryOf"] = "retry", e["id"]
		return 200, again
	}))
}

func (a *API) execution(handle func(map[string]any, *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		at := slices.IndexFunc(a.ended, func(e map[string]any) bool { return e["id"] == r.PathValue("id") })
		if at < 0 {
			answer(w, 404, message("Not Found"))
			return
		}
		status, body := handle(a.ended[at], r)
		answer(w, status, body)
	}
}

func without(e map[string]any, data bool) map[string]any {
	out := map[string]any{}
	for key, value := range e {
		if !data || key != "data" {
			out[key] = value
		}
	}
	return out
}

func (a *API) listExecutions(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := r.URL.Query()
	limit := 100
	_, _ = fmt.Sscan(q.Get("limit"), &limit)
	all := []map[string]any{}
	for _, e := range slices.Backward(a.ended) {
		status := e["status"]
		if (q.Get("workflowId") == "" || q.Get("workflowId") == e["workflowId"]) && (q.Get("status") == status || q.Get("status") == "" && status != "running") && len(all) < limit {
			all = append(all, without(e, q.Get("includeData") != "true"))
		}
	}
	answer(w, 200, map[string]any{"data": all, "nextCursor": nil})
}

func (a *API) ends(workflow map[string]any) Outcome {
	if a.outcome == nil {
		return Outcome{}
	}
	return a.outcome(workflow)
}

// webhook answers a call of an active workflow's webhook.
func (a *API) webhook(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.Trim(r.PathValue("path"), "/")
	a.mu.Lock()
	a.lastQuery = r.URL.RawQuery
	workflow, mode := a.registered(r.Method, path)
	if workflow == nil {
		a.mu.Unlock()
		answer(w, 404, map[string]any{
			"code": 404, "message": fmt.Sprintf("The requested webhook %q is not registered.", r.Method+" "+path),
			"hint": "The workflow must be active for a production URL to run successfully.",
		})
		return
	}
	var data any
	_ = json.Unmarshal(body, &data) // a call without a body has no data
	headers := map[string]any{}
	for name := range r.Header {
		headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	out := a.ends(workflow)
	a.start(workflow, map[string]any{"headers": headers, "body": data}, out)
	a.mu.Unlock()
	if out.After != nil {
		out.After()
	}
	switch {
	case mode == "onReceived":
		answer(w, 200, message("Workflow was started"))
	case out.Running:
		<-r.Context().Done()
	case out.Message != "":
		answer(w, 500, message("Error in workflow"))
	default:
		answer(w, 200, out.Output)
	}
}

// registered returns the active workflow that has the webhook, and the webhook's response mode.
func (a *API) registered(method, path string) (workflow map[string]any, mode string) {
	for _, id := range a.order {
		w := a.workflows[id]
		if w["active"] != true {
			continue
		}
		nodes, _ := w["nodes"].([]any)
		for _, v := range nodes {
			n, _ := v.(map[string]any)
			p, _ := n["parameters"].(map[string]any)
			text := func(key, other string) string {
				if s, _ := p[key].(string); s != "" {
					return s
				}
				return other
			}
			if n["type"] == "n8n-nodes-base.webhook" && strings.Trim(text("path", ""), "/") == path && text("httpMethod", "GET") == method {
				return w, text("responseMode", "onReceived")
			}
		}
	}
	return nil, ""
}

// start creates an execution in the form that n8n stores.
func (a *API) start(workflow map[string]any, input any, out Outcome) map[string]any {
	a.started++
	nodes, _ := workflow["nodes"].([]any)
	last := ""
	for _, v := range nodes {
		n, _ := v.(map[string]any)
		last, _ = n["name"].(string)
	}
	items := func(value any) any {
		return []any{map[string]any{"data": map[string]any{"main": []any{[]any{map[string]any{"json": value}}}}}}
	}
	run := map[string]any{"Webhook": items(input)}
	result := map[string]any{"runData": run, "lastNodeExecuted": last}
	status := "success"
	switch {
	case out.Running:
		status = "running"
	case out.Message != "":
		status = "error"
		result["lastNodeExecuted"] = out.Node
		result["error"] = map[string]any{"message": out.Message, "node": map[string]any{"name": out.Node}, "context": map[string]any{"itemIndex": out.Item}}
	default:
		run[last] = items(out.Output)
	}
	e := map[string]any{
		"id": fmt.Sprint(a.started), "finished": status == "success", "mode": "webhook", "retryOf": nil, "retrySuccessId": nil, "status": status,
		"startedAt": stamp(), "stoppedAt": stamp(), "workflowId": workflow["id"], "waitTill": nil, "data": map[string]any{"resultData": result},
	}
	if !out.Unkept {
		a.ended = append(a.ended, e)
	}
	return e
}
