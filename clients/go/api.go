package harness

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// Health returns nil if the server answers.
func (c *Client) Health(ctx context.Context) error {
	_, err := get[json.RawMessage](ctx, c, "/health", nil)
	return err
}

// DoTask executes a task and returns its answer. A task that failed is an answer too, with Error.
func (c *Client) DoTask(ctx context.Context, t NewTask) (Answer, error) {
	return keyed[Answer](ctx, c, "/task", t.Key, t)
}

// CreateTask begins a task in the background.
func (c *Client) CreateTask(ctx context.Context, t NewTask) (Task, error) {
	return keyed[Task](ctx, c, "/v1/tasks", t.Key, t)
}

// Tasks lists tasks: status, sessionId, q, limit and cursor are parameters.
func (c *Client) Tasks(ctx context.Context, query url.Values) (TaskList, error) {
	return get[TaskList](ctx, c, "/v1/tasks", query)
}

func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	return get[Task](ctx, c, join("tasks", id), nil)
}

func (c *Client) CancelTask(ctx context.Context, id string) (Task, error) {
	return do[Task](ctx, c, request{method: http.MethodPost, path: join("tasks", id, "cancel"), safe: true}) // a second one changes nothing
}

// CreateRun executes a program and returns its outcome, or what it waits for. With a Wait of "0s" the run goes on: see WaitRun.
func (c *Client) CreateRun(ctx context.Context, r NewRun) (Run, error) {
	return keyed[Run](ctx, c, "/v1/runs", r.Key, r)
}

func (c *Client) Runs(ctx context.Context, query url.Values) (RunList, error) {
	return get[RunList](ctx, c, "/v1/runs", query)
}

func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	return get[Run](ctx, c, join("runs", id), nil)
}

func (c *Client) Journal(ctx context.Context, id string, query url.Values) (Journal, error) {
	return get[Journal](ctx, c, join("runs", id, "journal"), query)
}

// ReplayRun executes a recorded run again. It calls no server.
func (c *Client) ReplayRun(ctx context.Context, id string) (Run, error) {
	return do[Run](ctx, c, request{method: http.MethodPost, path: join("runs", id, "replay"), safe: true})
}

// CreateCapability makes the token with which CallTool calls tools in the name of a run.
func (c *Client) CreateCapability(ctx context.Context, run string) (Capability, error) {
	return do[Capability](ctx, c, request{method: http.MethodPost, path: join("runs", run, "capability")})
}

func (c *Client) CallTool(ctx context.Context, capability, tool string, input any) (json.RawMessage, error) {
	body := map[string]any{"authToken": capability, "toolName": tool, "input": input}
	return do[json.RawMessage](ctx, c, request{method: http.MethodPost, path: "/internal/mcp-call", body: body})
}

// Doubts lists writes that were sent and whose answer is lost.
func (c *Client) Doubts(ctx context.Context, query url.Values) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/doubts", query)
}

// SettleCall says whether a write in doubt was "done" or "not_done".
func (c *Client) SettleCall(ctx context.Context, run string, call int, verdict, note string) error {
	body := map[string]string{"verdict": verdict, "note": note}
	_, _, err := c.send(ctx, request{method: http.MethodPost, path: join("runs", run, "calls", strconv.Itoa(call), "settle"), body: body, safe: true})
	return err
}

func (c *Client) Approvals(ctx context.Context, query url.Values) (ApprovalList, error) {
	return get[ApprovalList](ctx, c, "/v1/approvals", query)
}

func (c *Client) Approval(ctx context.Context, id string) (Approval, error) {
	return get[Approval](ctx, c, join("approvals", id), nil)
}

// Approve approves calls. With remember, later calls of the same tools in the same task, or run, are not asked about.
func (c *Client) Approve(ctx context.Context, id string, remember bool) (Approval, error) {
	return do[Approval](ctx, c, request{method: http.MethodPost, path: join("approvals", id), body: map[string]any{"decision": "approve", "remember": remember}})
}

func (c *Client) Deny(ctx context.Context, id, reason string) (Approval, error) {
	return do[Approval](ctx, c, request{method: http.MethodPost, path: join("approvals", id), body: map[string]any{"decision": "deny", "reason": reason}})
}

// Policy returns the rules in effect.
func (c *Client) Policy(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/policy", nil)
}

// AskPolicy asks one of the questions test, check and simulation, which make no calls. docs/API_EXAMPLES.md shows the bodies.
func (c *Client) AskPolicy(ctx context.Context, question string, body any) (json.RawMessage, error) {
	return do[json.RawMessage](ctx, c, request{method: http.MethodPost, path: join("policy", question), body: body, safe: true})
}

// PolicyPresets returns what each preset decides of the recorded calls.
func (c *Client) PolicyPresets(ctx context.Context, query url.Values) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/policy/presets", query)
}

// PolicyFlows returns between which tools or servers values went.
func (c *Client) PolicyFlows(ctx context.Context, query url.Values) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/policy/flows", query)
}

// CreateSession makes a session. An empty id lets the server choose one.
func (c *Client) CreateSession(ctx context.Context, id string) (Session, error) {
	body := map[string]string{}
	if id != "" {
		body["id"] = id
	}
	return do[Session](ctx, c, request{method: http.MethodPost, path: "/v1/sessions", body: body})
}

func (c *Client) Sessions(ctx context.Context, query url.Values) (SessionList, error) {
	return get[SessionList](ctx, c, "/v1/sessions", query)
}

func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	return get[Session](ctx, c, join("sessions", id), nil)
}

func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.remove(ctx, join("sessions", id))
}

// Tools lists tools; server is a parameter.
func (c *Client) Tools(ctx context.Context, query url.Values) (ToolList, error) {
	return get[ToolList](ctx, c, "/v1/tools", query)
}

// SearchTools finds tools by words. limit 0 is the server's default.
func (c *Client) SearchTools(ctx context.Context, words string, limit int) (ToolList, error) {
	query := url.Values{"q": {words}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return get[ToolList](ctx, c, "/v1/tools/search", query)
}

func (c *Client) Tool(ctx context.Context, name string) (ToolDetails, error) {
	return get[ToolDetails](ctx, c, join("tools", name), nil)
}

// Types returns the TypeScript declarations of tools; server is a parameter.
func (c *Client) Types(ctx context.Context, query url.Values) (string, error) {
	return c.text(ctx, "/v1/tools.d.ts", query)
}

func (c *Client) Skills(ctx context.Context, query url.Values) (SkillList, error) {
	return get[SkillList](ctx, c, "/v1/skills", query)
}

func (c *Client) Skill(ctx context.Context, path string) (string, error) {
	return c.text(ctx, join("skills")+slashed(path), nil)
}

func (c *Client) PutSkill(ctx context.Context, path, source string) error {
	_, _, err := c.send(ctx, request{method: http.MethodPut, path: join("skills") + slashed(path), body: []byte(source)})
	return err
}

func (c *Client) DeleteSkill(ctx context.Context, path string) error {
	return c.remove(ctx, join("skills")+slashed(path))
}

func (c *Client) CreateSchedule(ctx context.Context, s NewSchedule) (Schedule, error) {
	return keyed[Schedule](ctx, c, "/v1/schedules", s.Key, s)
}

func (c *Client) Schedules(ctx context.Context) (ScheduleList, error) {
	return get[ScheduleList](ctx, c, "/v1/schedules", nil)
}

func (c *Client) Schedule(ctx context.Context, id string) (Schedule, error) {
	return get[Schedule](ctx, c, join("schedules", id), nil)
}

func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	return c.remove(ctx, join("schedules", id))
}

func (c *Client) Servers(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/servers", nil)
}

// AddServer adds an MCP server; the body has name, and url or command. It takes the role admin.
func (c *Client) AddServer(ctx context.Context, body any) (json.RawMessage, error) {
	return do[json.RawMessage](ctx, c, request{method: http.MethodPost, path: "/v1/servers", body: body})
}

func (c *Client) RemoveServer(ctx context.Context, name string) error {
	return c.remove(ctx, join("servers", name))
}

func (c *Client) Metrics(ctx context.Context) (string, error) { return c.text(ctx, "/metrics", nil) }
