package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// marker is part of all sent texts, and must not be in an error.
const marker = "Zq7marker"

// Errors never repeat anything of the request: not its path, parameters, headers, fields or the names of fields.
func TestErrorsDoNotEcho(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	errors := map[int]int{}
	check := func(what string, r *reply) {
		t.Helper()
		if r.status < 400 {
			return
		}
		errors[r.status]++
		var header strings.Builder
		r.header.Write(&header)
		if strings.Contains(strings.ToLower(r.body+header.String()), strings.ToLower(marker)) {
			t.Errorf("%s: %d repeats what was sent: %s", what, r.status, r.body)
		}
	}
	values := []any{
		marker, 7, true, nil,
		[]any{marker},
		map[string]any{marker: marker},
		map[string]any{"turns": marker, marker: 1},
		map[string]any{"turns": 1.5},
		"http://" + marker + "@" + marker + "/%zz", "\x00" + marker, strings.Repeat(marker, 2000), marker + " * * * *", "* * * * " + marker, "2026-13-45T" + marker,
		json.Number("1e999"),
	}
	for _, o := range w.contract.operations() {
		op := w.contract.doc["paths"].(map[string]any)[o.Path].(map[string]any)[strings.ToLower(o.Method)].(map[string]any)
		path, query := o.Path, []string{}
		var headers []string
		for _, p := range o.Parameters {
			switch p.In {
			case "path":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", marker)
			case "query":
				query = append(query, p.Name+"="+marker)
			case "header":
				headers = append(headers, p.Name, strings.Repeat(marker, 50))
			}
		}
		what := o.Method + " " + o.Path
		check(what, w.do(o.Method, path, bodyFor(o), headers...))
		for _, q := range query {
			check(what, w.do(o.Method, path+"?"+q, bodyFor(o)))
		}
		check(what, w.do(o.Method, path+"?"+marker+"="+marker+"&limit="+marker+"%zz", bodyFor(o)))
		check(what, w.do(http.MethodPatch, path, marker))
		if o.RequestBody == nil {
			continue
		}
		fields := w.contract.fields(op)
		for _, text := range []string{marker, `{"` + marker, `{"` + marker + `": ` + marker, `"` + marker + `"`, `["` + marker + `"]`, "\xff" + marker, "{}"} {
			check(what, w.do(o.Method, path, text))
		}
		check(what, w.do(o.Method, path, marker, "Content-Type", "text/"+marker))
		for field := range fields {
			for _, value := range values {
				all := map[string]any{marker: marker}
				for other := range fields {
					if given, ok := sound[other]; ok && instead[field] != other {
						all[other] = given
					}
				}
				all[field] = value
				text, err := json.Marshal(all)
				if err != nil {
					t.Fatal(err)
				}
				check(what+" "+field, w.do(o.Method, path, string(text)))
			}
		}
	}
	for _, path := range []string{"/" + marker, "/v1/" + marker, "/v1/tasks/" + marker + "/" + marker, "/" + marker + "/../" + marker, "/v1/tasks/" + marker + "/events/ws"} {
		check(path, w.do("GET", path, nil))
		check(path, w.do("GET", path, nil, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", marker, "Sec-WebSocket-Key", marker))
	}
	keys := setup(t, setting{keys: true})
	key := keys.key("alice")
	for _, headers := range [][]string{
		{"Authorization", "Bearer " + marker},
		{"Authorization", marker},
		{"Authorization", "Bearer hk_" + marker},
		{"Authorization", "Bearer " + key, "Origin", "https://" + marker, "Sec-Fetch-Site", "cross-site"},
		{"Host", marker},
		{"X-Forwarded-For", marker},
	} {
		check("headers", keys.do("POST", "/v1/tasks", map[string]string{"userId": marker}, headers...))
	}
	id := w.do("POST", "/v1/tasks", map[string]string{"userId": "alice", "task": "SAY<<x>>"}).want(http.StatusAccepted).field("id")
	check("Last-Event-ID", w.do("GET", "/v1/tasks/"+id+"/events", nil, "Last-Event-ID", marker).want(http.StatusBadRequest))
	check("origin", w.do("GET", "/v1/tasks/"+id+"/ws", nil, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Origin", "https://"+marker).want(http.StatusForbidden))
	for _, status := range []int{400, 403, 404, 405} {
		if errors[status] == 0 {
			t.Errorf("no request was refused with %d: the test tests nothing", status)
		}
	}
	if errors[422] != 0 {
		t.Errorf("%d requests were refused with 422", errors[422])
	}
}

// bodyFor returns a body for an operation, or nil if the operation takes none.
func bodyFor(o documented) any {
	if o.RequestBody == nil {
		return nil
	}
	return map[string]any{marker: marker}
}

// fields returns the fields of an operation's JSON body, with their schemas.
func (c *contract) fields(op map[string]any) map[string]map[string]any {
	media, _ := op["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)
	schema, _ := media["schema"].(map[string]any)
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.doc["components"].(map[string]any)["schemas"].(map[string]any)[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
	}
	fields := map[string]map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		fields[name] = p.(map[string]any)
	}
	return fields
}

// sound holds valid values of fields. instead maps a field to the one that a request with this field leaves out, because the two exclude each other.
var (
	sound = map[string]any{
		"userId": "alice", "task": "SAY<<x>>", "code": "return 1", "cron": "@yearly", "name": "server", "url": "http://192.0.2.1/", "toolName": "x",
	}
	instead = map[string]string{"runAt": "cron", "command": "url", "openapi": "url"}
)

// For every body, the answer is a success or a documented error, and never an internal error.
func TestAnyBody(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	names := rapid.SampledFrom([]string{"userId", "task", "sessionId", "context", "budget", "code", "cron", "runAt", "timeZone", "id", "name", "url", marker})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{
			rapid.String().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil), rapid.SampledFrom([]any{"alice", "@daily", "x"}),
		}
		if depth == 0 {
			return rapid.OneOf(leaves...)
		}
		return rapid.OneOf(append(leaves,
			rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 3).AsAny(),
			rapid.MapOfN(names, rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 4).AsAny())...)
	}
	paths := rapid.SampledFrom([]string{"/v1/sessions", "/v1/schedules", "/v1/runs", "/internal/mcp-call"})
	rapid.Check(t, func(rt *rapid.T) {
		text, err := json.Marshal(rapid.MapOfN(names, value(2), 0, 6).Draw(rt, "body"))
		if err != nil {
			rt.Fatal(err)
		}
		if r := w.do("POST", paths.Draw(rt, "path"), string(text)); r.status >= 500 || r.status == http.StatusUnprocessableEntity {
			rt.Fatalf("%s: %d %s", text, r.status, r.body)
		}
	})
}
