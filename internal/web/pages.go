package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

type (
	approvalList = api.ApprovalList
	runList      = api.RunList
	taskList     = api.TaskList
)

// pageSize is the rows of a list.
const pageSize = "50"

// query is a parameter of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// form is a field of the form that was sent.
func (v *visit) form(name string) string { return v.r.PostForm.Get(name) }

// with is the address of this page with other parameters.
func (v *visit) with(pairs ...string) string {
	query := v.r.URL.Query()
	query.Del("done")
	for i := 0; i+1 < len(pairs); i += 2 {
		if query.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			query.Del(pairs[i])
		}
	}
	if len(query) == 0 {
		return v.r.URL.Path
	}
	return v.r.URL.Path + "?" + query.Encode()
}

// next is the address of the page behind a list; empty: there is none.
func (v *visit) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	return v.with("cursor", cursor)
}

// to sends the browser to another page after a form.
func (v *visit) to(path, did string) error {
	if did != "" {
		path += "?done=" + did
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// at is a path of the API or of a page with names in it.
func at(parts ...string) string {
	for i, p := range parts {
		if i%2 == 1 {
			parts[i] = url.PathEscape(p)
		}
	}
	return strings.Join(parts, "")
}

// list is a page of rows.
type list[T any] struct {
	Rows   []T
	Next   string            // address of the next page; empty on the last one
	First  bool              // the page is the first
	Filter map[string]string // filters in the address
	Values []string          // values of the filter by status
}

func listOf[T any](v *visit, rows []T, next string, values ...string) list[T] {
	l := list[T]{rows, v.next(next), v.query("cursor") == "", map[string]string{}, values}
	for _, name := range []string{"status", "sessionId", "userId", "q", "server"} {
		l.Filter[name] = v.query(name)
	}
	return l
}

// filters are the parameters of a list.
func (v *visit) filters(names ...string) []string {
	out := []string{"limit", pageSize, "cursor", v.query("cursor")}
	for _, name := range names {
		out = append(out, name, v.query(name))
	}
	return out
}

func (v *visit) now() error {
	var body struct {
		Running, Recent []api.RunLine
		Tasks           []task.Task
		Waiting         []approval.Request
		Failing         []mcpclient.Status
		Servers         int
		Runs, Failed    int
		Calls           int
	}
	recent, err := read[runList](v, "/v1/runs", "limit", "200")
	if err != nil {
		return err
	}
	hour := v.s.opt.Now().Add(-time.Hour)
	for _, r := range recent.Runs {
		if r.Ended == nil {
			body.Running = append(body.Running, r)
		}
		if r.Started.After(hour) {
			body.Runs++
			body.Calls += r.Calls
			if r.Status == "failed" {
				body.Failed++
			}
		}
	}
	body.Recent = recent.Runs[:min(10, len(recent.Runs))]
	for _, status := range []string{"running", "waiting_approval", "queued"} {
		tasks, err := read[taskList](v, "/v1/tasks", "limit", "20", "status", status)
		if err != nil {
			return err
		}
		body.Tasks = append(body.Tasks, tasks.Tasks...)
	}
	waiting, err := read[approvalList](v, "/v1/approvals", "status", "waiting", "limit", "20")
	if err != nil {
		return err
	}
	body.Waiting = waiting.Approvals
	servers, err := read[api.ServerList](v, "/v1/servers")
	if err != nil {
		return err
	}
	body.Servers = len(servers.Servers)
	for _, s := range servers.Servers {
		if troubled(s) {
			body.Failing = append(body.Failing, s)
		}
	}
	return v.show("now", view{Title: "Now", Nav: "now", Live: true, Body: body})
}

// troubled says whether a person has to look at a server.
func troubled(s mcpclient.Status) bool {
	return s.Held > 0 || slices.Contains([]mcpclient.State{mcpclient.StateFailed, mcpclient.StateBackoff, mcpclient.StateNeedsLogin}, s.State)
}

func (v *visit) tasks() error {
	got, err := read[taskList](v, "/v1/tasks", v.filters("status", "sessionId", "userId")...)
	if err != nil {
		return err
	}
	return v.show("tasks", view{Title: "Tasks", Nav: "tasks", Live: v.query("cursor") == "", Body: listOf(v, got.Tasks, got.Next,
		"queued", "running", "waiting_approval", "succeeded", "failed", "cancelled")})
}

// step is an event of a task as the page shows it.
type step struct {
	task.Event
	Turn *struct {
		Turn  int    `json:"turn"`
		Text  string `json:"text"`
		Calls []struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"calls"`
		CostUSD *float64 `json:"costUsd"`
	}
	Run  string // id of the run that the event is about
	Code string
}

func (v *visit) task() error {
	t, err := read[task.Task](v, at("/v1/tasks/", v.r.PathValue("id")))
	if err != nil {
		return err
	}
	events, err := read[api.EventList](v, at("/v1/tasks/", t.ID, "/history"), "limit", "500", "cursor", v.query("after"))
	if err != nil {
		return err
	}
	body := struct {
		task.Task
		Steps []step
		After string // address of later events; empty: there are none
	}{Task: t}
	if events.Next != 0 && len(events.Events) == 500 {
		body.After = v.with("after", strconv.FormatInt(events.Next, 10))
	}
	for _, e := range events.Events {
		one := step{Event: e}
		var of struct {
			RunID  string          `json:"runId"`
			Code   json.RawMessage `json:"code"`
			Output json.RawMessage `json:"output"`
			Error  json.RawMessage `json:"error"`
		}
		switch e.Type {
		case task.EventCall, task.EventAnswer, task.EventQueued, task.EventStarted: // the run's page has the calls
			continue
		case task.EventTurn:
			if err := json.Unmarshal(e.Data, &one.Turn); err != nil {
				return err
			}
		default:
			if json.Unmarshal(e.Data, &of) == nil {
				one.Run = of.RunID
				_ = json.Unmarshal(of.Code, &one.Code) // another type has no program
				if of.Output != nil && of.Error == nil {
					one.Data = of.Output
				}
			}
			if e.Type == task.EventEnded { // the page has it above
				one.Data, one.Run, one.Code = nil, "", ""
			}
		}
		body.Steps = append(body.Steps, one)
	}
	return v.show("task", view{Title: "Task " + t.ID, Nav: "tasks", Live: !t.Status.Ended(), Body: body})
}

func (v *visit) newTask() error {
	var t task.Task
	ask := map[string]any{"task": v.form("task")}
	for _, name := range []string{"sessionId", "model", "userId"} {
		if value := strings.TrimSpace(v.form(name)); value != "" {
			ask[name] = value
		}
	}
	if err := v.send(http.MethodPost, "/v1/tasks", ask, &t); err != nil {
		return err
	}
	return v.to(at("/tasks/", t.ID), "")
}

func (v *visit) cancelTask() error {
	id := v.r.PathValue("id")
	if err := v.send(http.MethodPost, at("/v1/tasks/", id, "/cancel"), struct{}{}, nil); err != nil {
		return err
	}
	return v.to(at("/tasks/", id), "cancelled")
}

// composer is the form for a program.
type composer struct {
	Code, Session, Error string
}

func (v *visit) runs() error {
	return v.showRuns(http.StatusOK, composer{Session: v.query("sessionId")})
}

func (v *visit) showRuns(status int, form composer) error {
	got, err := read[runList](v, "/v1/runs", v.filters("status", "sessionId", "userId")...)
	if err != nil {
		return err
	}
	return v.render(status, "runs", view{Title: "Runs", Nav: "runs", Live: v.query("cursor") == "" && form.Code == "", Body: struct {
		list[api.RunLine]
		Composer composer
	}{listOf(v, got.Runs, got.Next, "running", "succeeded", "failed", "cancelled", "waiting_approval"), form}})
}

// runWait is how long a page waits for a run before it shows it as running.
const runWait = "1s"

func (v *visit) newRun() error {
	form := composer{Code: v.form("code"), Session: strings.TrimSpace(v.form("sessionId"))}
	ask := map[string]any{"code": form.Code, "wait": runWait}
	if form.Session != "" {
		ask["sessionId"] = form.Session
	}
	var out run.Outcome
	err := v.send(http.MethodPost, "/v1/runs", ask, &out)
	if refused, ok := errors.AsType[*refusal](err); ok { // what was typed stays
		form.Error = refused.Error()
		return v.showRuns(refused.Status, form)
	}
	if err != nil {
		return err
	}
	return v.to(at("/runs/", out.RunID)+"?new=1", "")
}

// bar is a call in the picture of a run: its place and width in thousandths of the time shown.
type bar struct {
	runs.CallLine
	X, Width int
	Took     time.Duration
}

func (v *visit) run() error {
	id := v.r.PathValue("id")
	var body struct {
		api.RunDetails
		Bars  []bar
		Span  time.Duration
		Next  string // address of later calls; empty: there are none
		First bool
	}
	err := v.get(at("/v1/runs/", id), &body.RunDetails)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusNotFound && v.query("new") != "" {
		return v.show("starting", view{Title: "Run " + id, Nav: "runs", Live: true, Body: id})
	}
	if err != nil {
		return err
	}
	calls, err := read[api.CallList](v, at("/v1/runs/", id, "/calls"), "cursor", v.query("cursor"))
	if err != nil {
		return err
	}
	body.Next, body.First = v.next(calls.Next), v.query("cursor") == ""
	body.Bars, body.Span = bars(calls.Calls, body.Ended == nil, v.s.opt.Now())
	return v.show("run", view{Title: "Run " + id, Nav: "runs", Live: body.Ended == nil, Body: body})
}

// bars places calls on the time from the first one to the end of the last.
func bars(calls []runs.CallLine, open bool, now time.Time) (all []bar, span time.Duration) {
	if len(calls) == 0 {
		return nil, 0
	}
	begin, end := calls[0].Began, calls[0].Began
	last := func(c runs.CallLine) time.Time {
		switch {
		case c.Answered != nil:
			return *c.Answered
		case open:
			return now
		}
		return c.Began
	}
	for _, c := range calls {
		if at := last(c); at.After(end) {
			end = at
		}
	}
	span = end.Sub(begin)
	for _, c := range calls {
		b := bar{CallLine: c, Took: last(c).Sub(c.Began), Width: 4}
		if span > 0 {
			b.X = int(min(996, 1000*c.Began.Sub(begin)/span))
			b.Width = max(4, int(1000*b.Took/span))
		}
		all = append(all, b)
	}
	return all, span
}

func (v *visit) call() error { return v.showCall("") }

// reveal shows a call with the values of its tokens, which the audit log says.
func (v *visit) reveal() error { return v.showCall("true") }

func (v *visit) showCall(values string) error {
	id := v.r.PathValue("id")
	got, err := read[runs.Call](v, at("/v1/runs/", id, "/calls/", v.r.PathValue("n")), "seq", v.query("seq"), "values", values)
	if err != nil {
		return err
	}
	return v.show("call", view{Title: "Call " + strconv.Itoa(got.N) + " of " + id, Nav: "runs", Live: got.Answered == nil && !got.Doubt && values == "", Body: struct {
		runs.Call
		Run    string
		Values bool
	}{got, id, values != ""}})
}

func (v *visit) replay() error {
	id := v.r.PathValue("id")
	var out run.Outcome
	if err := v.send(http.MethodPost, at("/v1/runs/", id, "/replay"), struct{}{}, &out); err != nil {
		return err
	}
	return v.show("replay", view{Title: "Replay of " + id, Nav: "runs", Body: struct {
		run.Outcome
		Of string
	}{out, id}})
}

func (v *visit) approvals() error {
	status := v.query("status")
	got, err := read[approvalList](v, "/v1/approvals", "limit", pageSize, "cursor", v.query("cursor"), "taskId", v.query("taskId"), "status", cmp.Or(status, "waiting"))
	if err != nil {
		return err
	}
	body := listOf(v, got.Approvals, got.Next, "waiting", "approved", "denied", "expired", "closed")
	body.Filter["status"] = cmp.Or(status, "waiting")
	return v.show("approvals", view{Title: "Approvals", Nav: "approvals", Live: body.First, Body: body})
}

func (v *visit) approval() error {
	r, err := read[approval.Request](v, at("/v1/approvals/", v.r.PathValue("id")))
	if err != nil {
		return err
	}
	body := struct {
		approval.Request
		Code string
		Next string // id of another request that waits
	}{Request: r}
	var details api.RunDetails
	if err := v.get(at("/v1/runs/", r.Run), &details); err == nil {
		body.Code = details.Code
	}
	if others, err := read[approvalList](v, "/v1/approvals", "status", "waiting", "limit", "2"); err == nil {
		for _, o := range others.Approvals {
			if o.ID != r.ID {
				body.Next = o.ID
			}
		}
	}
	return v.show("approval", view{Title: "Approval " + r.ID, Nav: "approvals", Live: r.Status == approval.Waiting, Body: body})
}

// decide decides about one request or several. One that cannot be decided stops no other.
func (v *visit) decide() error {
	ids := v.r.PostForm["id"]
	if len(ids) == 0 {
		return &refusal{Status: http.StatusBadRequest, Detail: "no request is chosen: mark at least one"}
	}
	decision := map[string]any{"decision": v.form("decision")}
	if reason := strings.TrimSpace(v.form("reason")); reason != "" {
		decision["reason"] = reason
	}
	if v.form("remember") != "" {
		decision["remember"] = true
	}
	var failed []string
	var first *refusal
	for _, id := range ids {
		err := v.send(http.MethodPost, at("/v1/approvals/", id), decision, nil)
		if refused, ok := errors.AsType[*refusal](err); ok {
			failed, first = append(failed, id), cmp.Or(first, refused)
		} else if err != nil {
			return err
		}
	}
	if first != nil {
		return &refusal{Status: first.Status, Detail: strconv.Itoa(len(ids)-len(failed)) + " of " + strconv.Itoa(len(ids)) + " decided; not " + strings.Join(failed, ", ") + ": " + first.Detail}
	}
	did := "denied"
	if decision["decision"] == "approve" {
		did = "approved"
	}
	to := "/approvals"
	if v.form("to") != "" && len(ids) == 1 {
		to = at("/approvals/", ids[0])
	}
	return v.to(to, did)
}

func (v *visit) tools() error {
	body := struct {
		list[api.ToolLine]
		Hits []catalog.Hit
	}{list: listOf(v, []api.ToolLine(nil), "")}
	if q := strings.TrimSpace(v.query("q")); q != "" {
		got, err := read[api.ToolHits](v, "/v1/tools/search", "q", q, "limit", "50")
		if err != nil {
			return err
		}
		body.Hits = got.Tools
	} else {
		got, err := read[api.ToolList](v, "/v1/tools", "server", v.query("server"))
		if err != nil {
			return err
		}
		const rows = 200
		from, _ := strconv.Atoi(v.query("cursor"))
		from = min(max(0, from), len(got.Tools))
		body.Rows = got.Tools[from:min(from+rows, len(got.Tools))]
		if from+rows < len(got.Tools) {
			body.Next = v.with("cursor", strconv.Itoa(from+rows))
		}
	}
	return v.show("tools", view{Title: "Tools", Nav: "tools", Body: body})
}

// trial is a call of a tool from its page.
type trial struct {
	Args  string
	Error string
}

func (v *visit) tool() error { return v.showTool(http.StatusOK, trial{Args: "{}"}) }

func (v *visit) showTool(status int, of trial) error {
	got, err := read[catalog.Details](v, at("/v1/tools/", v.r.PathValue("name")))
	if err != nil {
		return err
	}
	return v.render(status, "tool", view{Title: "Tool " + got.Name, Nav: "tools", Body: struct {
		catalog.Details
		Trial trial
	}{got, of}})
}

// try calls a tool through the gate: as a run of one call, with a journal like every other.
func (v *visit) try() error {
	given := trial{Args: v.form("args")}
	if !json.Valid([]byte(given.Args)) {
		given.Error = "The arguments are not JSON."
		return v.showTool(http.StatusBadRequest, given)
	}
	name, _ := json.Marshal(v.r.PathValue("name"))
	args, _ := json.Marshal(given.Args)
	var out run.Outcome
	err := v.send(http.MethodPost, "/v1/runs", map[string]any{
		"code": "return await callMCPTool(" + string(name) + ", JSON.parse(" + string(args) + "))", "wait": runWait,
	}, &out)
	if refused, ok := errors.AsType[*refusal](err); ok {
		given.Error = refused.Error()
		return v.showTool(refused.Status, given)
	}
	if err != nil {
		return err
	}
	return v.to(at("/runs/", out.RunID)+"?new=1", "")
}

func (v *visit) servers() error {
	got, err := read[api.ServerList](v, "/v1/servers")
	if err != nil {
		return err
	}
	return v.show("servers", view{Title: "Servers", Nav: "servers", Live: true, Body: listOf(v, got.Servers, "")})
}

func (v *visit) server() error {
	name := v.r.PathValue("name")
	var body struct {
		mcpclient.Status
		Review []approval.Held
		Tools  []api.ToolLine
	}
	if err := v.get(at("/v1/servers/", name), &body.Status); err != nil {
		return err
	}
	if body.Held > 0 {
		review, err := read[api.Review](v, at("/v1/servers/", name, "/review"))
		if refused, ok := errors.AsType[*refusal](err); err != nil && (!ok || refused.Status != http.StatusForbidden) { // only admins review
			return err
		}
		body.Review = review.Held
	}
	tools, err := read[api.ToolList](v, "/v1/tools", "server", name)
	if err != nil {
		return err
	}
	body.Tools = tools.Tools
	return v.show("server", view{Title: "Server " + name, Nav: "servers", Live: true, Body: body})
}

func (v *visit) addServer() error {
	name := strings.TrimSpace(v.form("name"))
	ask := map[string]any{"name": name}
	for _, field := range []string{"url", "openapi"} {
		if value := strings.TrimSpace(v.form(field)); value != "" {
			ask[field] = value
		}
	}
	if ask["openapi"] != nil {
		ask["transport"] = "openapi"
	}
	if err := v.send(http.MethodPost, "/v1/servers", ask, nil); err != nil {
		return err
	}
	return v.to(at("/servers/", name), "added")
}

func (v *visit) changeServer() error {
	name, action := v.r.PathValue("name"), v.r.PathValue("action")
	var err error
	to := at("/servers/", name)
	switch action {
	case "reconnect":
		err = v.send(http.MethodPost, at("/v1/servers/", name, "/reconnect"), struct{}{}, nil)
	case "remove":
		err = v.send(http.MethodDelete, at("/v1/servers/", name), nil, nil)
		to = "/servers"
	case "review":
		var approve []map[string]string
		for _, marked := range v.r.PostForm["approve"] {
			hash, tool, _ := strings.Cut(marked, " ")
			approve = append(approve, map[string]string{"tool": tool, "hash": hash})
		}
		if len(approve) == 0 {
			return &refusal{Status: http.StatusBadRequest, Detail: "no definition is chosen: mark at least one"}
		}
		err = v.send(http.MethodPost, at("/v1/servers/", name, "/review"), map[string]any{"approve": approve}, nil)
	default:
		err = &refusal{Status: http.StatusNotFound, Detail: "there is no such action"}
	}
	if err != nil {
		return err
	}
	return v.to(to, action)
}

func (v *visit) sessions() error {
	got, err := read[api.SessionList](v, "/v1/sessions", v.filters("userId")...)
	if err != nil {
		return err
	}
	return v.show("sessions", view{Title: "Sessions", Nav: "sessions", Body: listOf(v, got.Sessions, got.Next)})
}

func (v *visit) session() error {
	id := v.r.PathValue("id")
	var body struct {
		task.Session
		Files []api.File
		Tasks []task.Task
		Runs  []api.RunLine
		User  string
	}
	body.User = v.query("userId")
	if err := v.get(at("/v1/sessions/", id), &body.Session, "userId", body.User); err != nil {
		return err
	}
	files, err := read[api.FileList](v, at("/v1/sessions/", id, "/files"), "userId", body.User)
	if err != nil {
		return err
	}
	tasks, err := read[taskList](v, "/v1/tasks", "sessionId", id, "userId", body.User)
	if err != nil {
		return err
	}
	ran, err := read[runList](v, "/v1/runs", "sessionId", id, "userId", body.User)
	if err != nil {
		return err
	}
	body.Files, body.Tasks, body.Runs = files.Files, tasks.Tasks, ran.Runs
	return v.show("session", view{Title: "Session " + id, Nav: "sessions", Live: true, Body: body})
}

// file sends a file of a session as one to save: a browser does not show what agents wrote as a page of this server.
func (v *visit) file() error {
	return v.download(at("/v1/sessions/", v.r.PathValue("id")) + "/files/" + (&url.URL{Path: v.r.PathValue("path")}).EscapedPath())
}

func (v *visit) skillFile() error {
	return v.download("/v1/skills/" + (&url.URL{Path: v.r.PathValue("path")}).EscapedPath())
}

func (v *visit) download(path string) error {
	if user := v.query("userId"); user != "" {
		path += "?" + url.Values{"userId": {user}}.Encode()
	}
	return v.exchange(v.w, http.MethodGet, path, nil, 0, "")
}

// upload stores the files of a form in a session. What has been stored before an error stays.
func (v *visit) upload() error {
	id := v.r.PathValue("id")
	parts, err := v.r.MultipartReader()
	if err != nil {
		return &refusal{Status: http.StatusBadRequest, Detail: "the form has no files"}
	}
	user := ""
	if u := v.query("userId"); u != "" {
		user = "?" + url.Values{"userId": {u}}.Encode()
	}
	for {
		p, err := parts.NextPart()
		if err != nil {
			break // the end, or a browser that is gone
		}
		name := strings.TrimSpace(p.FileName())
		if name == "" {
			continue
		}
		got := v.answer()
		if err := v.exchange(got, http.MethodPut, at("/v1/sessions/", id, "/files/", name)+user, p, -1, "application/octet-stream"); err != nil {
			return err
		}
		if err := got.refused(); err != nil {
			return err
		}
	}
	return v.to(at("/sessions/", id), "uploaded")
}

func (v *visit) skills() error {
	got, err := read[api.SkillList](v, "/v1/skills", "userId", v.query("userId"))
	if err != nil {
		return err
	}
	return v.show("skills", view{Title: "Skills", Nav: "skills", Body: listOf(v, got.Skills, "")})
}

func (v *visit) schedules() error {
	got, err := read[api.ScheduleList](v, "/v1/schedules", "userId", v.query("userId"))
	if err != nil {
		return err
	}
	return v.show("schedules", view{Title: "Schedules", Nav: "schedules", Body: listOf(v, got.Schedules, "")})
}

func (v *visit) endSchedule() error {
	if err := v.send(http.MethodDelete, at("/v1/schedules/", v.r.PathValue("id")), nil, nil); err != nil {
		return err
	}
	return v.to("/schedules", "ended")
}

func (v *visit) policy() error {
	got, err := read[api.PolicyRules](v, "/v1/policy")
	if err != nil {
		return err
	}
	return v.show("policy", view{Title: "Policy", Nav: "policy", Body: got.Rules})
}

func (v *visit) privacy() error {
	var body struct {
		api.TokenStats
		User, Session string
		Problem       string
	}
	body.User, body.Session = v.query("userId"), v.query("sessionId")
	err := v.get("/v1/pii/stats", &body.TokenStats, "userId", body.User, "sessionId", body.Session)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusBadRequest { // who acts for all users names one
		body.Problem = refused.Error()
	} else if err != nil {
		return err
	}
	return v.show("privacy", view{Title: "Privacy", Nav: "privacy", Body: body})
}
