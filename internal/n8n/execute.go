package n8n

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
)

const (
	executeInputs = `"!workflowId":{"type":"string"},"inputData":{"type":"object","description":"what the webhook gets, as JSON, or as query where it takes no body"},` +
		`"waitSeconds":{"type":"number","minimum":0,"maximum":3600,"description":"how long to wait for the end, by default 30"},` + headersInput
	executedSchema = `{"type":"object","properties":{"executionId":{"type":"string","description":"empty if n8n keeps none"},"status":{"type":"string"},"data":{},"error":{"type":"string"},` +
		`"failure":{"type":"object","properties":{"node":{"type":"string"},"item":{"type":"integer"},"message":{"type":"string"},"description":{"type":"string"}},"required":["message"]},` +
		`"problem":{"type":"string"}},"required":["executionId","status"]}`
)

const (
	defaultWait = 30 * time.Second
	minAnswer   = time.Second     // minimum time for a webhook's answer, even if the caller does not wait
	lookups     = 2 * time.Second // time for finding an execution, in addition to waiting for its end
	minPoll     = 50 * time.Millisecond
	maxPoll     = 2 * time.Second
	maxItems    = 20 // maximum number of the last node's items in an answer

	// callHeader identifies the call of a webhook. n8n stores the headers in the data of the execution, so that the execution can be found.
	callHeader = "X-Harness-Call"
)

type executeInput struct {
	WorkflowID  string            `json:"workflowId"`
	InputData   object            `json:"inputData"`
	WaitSeconds *float64          `json:"waitSeconds"`
	Headers     map[string]string `json:"headers"`
}

// executeWorkflow runs an active workflow by its webhook and waits for the end of the execution. With an API key, n8n offers no other way.
func (i *Instance) executeWorkflow(ctx context.Context, sent func(), in executeInput) (any, error) {
	wait, err := i.wait(in.WaitSeconds)
	if err != nil {
		return nil, err
	}
	w, err := i.fetch(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	if !w.active() {
		return nil, refusef(http.StatusConflict, "the workflow %q is not active, so that its webhook does not work; activate_workflow activates it", w.name())
	}
	c, mode, err := i.hookOf(w, in.InputData)
	if err != nil {
		return nil, err
	}
	mark := uuid()
	c.headers, c.mark = in.Headers, mark
	f := &finder{api: i.api, workflow: w.id(), mark: mark, checked: map[string]bool{}}
	if f.after, err = f.newest(ctx); err != nil {
		return nil, err
	}
	until := time.Now().Add(wait)
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	c.sent = func() {
		sent()
		time.AfterFunc(max(wait, minAnswer), cancel)
	}
	x, answer, err := i.hooks.call(bound, c)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	late := bound.Err() != nil
	if err == nil {
		err = webhookFault(x, answer)
	}
	failed, unsent := errors.AsType[*mcpclient.WithinError](err)
	_, refused := errors.AsType[*refusal](err)
	if refused || unsent && failed.Unsent || err != nil && x == nil || err != nil && !x.out.Load() {
		return nil, err
	}
	e, found, lookErr := f.follow(ctx, until)
	switch {
	case lookErr != nil:
		if err == nil {
			err = lookErr
		}
		return nil, unknownOutcome(fmt.Sprintf("the webhook was called, and its execution was not found: %v", err))
	case found:
		return i.executed(e, answer, mode), nil
	case late && err != nil:
		return nil, unknownOutcome(fmt.Sprintf("the webhook did not answer within %s", wait))
	case err != nil:
		return nil, err
	}
	return unkept(w, answer, mode), nil
}

// wait returns the time to wait for the end of an execution.
func (i *Instance) wait(seconds *float64) (time.Duration, error) {
	most := i.opts.CallTimeout - 2*lookups
	if i.opts.CallTimeout == 0 {
		most = defaultWait
	}
	most = max(most, i.opts.CallTimeout/2)
	if seconds == nil {
		return min(defaultWait, most), nil
	}
	wait := time.Duration(*seconds * float64(time.Second))
	if wait > most {
		return 0, refusef(400, "waitSeconds can be %g at most, as calls may take %s (sandbox.callTimeout); get_execution shows later how it ended", most.Seconds(), i.opts.CallTimeout)
	}
	return wait, nil
}

const chatType = "@n8n/n8n-nodes-langchain.chatTrigger"

// hookOf returns the call of a workflow's webhook, and the webhook's response mode.
func (i *Instance) hookOf(w workflow, data object) (hookCall, string, error) {
	var kinds []string
	for _, n := range w.nodes() {
		kind, params := text(n, "type"), objectAt(n, "parameters")
		switch {
		case disabled(n):
		case kind == chatType && text(n, "webhookId") != "":
			body := object{"action": "sendMessage", "sessionId": uuid()}
			for key, value := range data {
				body[key] = value
			}
			return hookCall{method: http.MethodPost, at: i.hooks.base.JoinPath("webhook", text(n, "webhookId"), "chat"), data: body}, "lastNode", nil
		case kind == webhookType:
			return i.hookOfNode(n, params, data)
		case strings.HasSuffix(strings.ToLower(kind), "trigger"):
			kinds = append(kinds, shortType(kind))
		}
	}
	has := "it has no trigger"
	if len(kinds) > 0 {
		has = "its triggers are " + strings.Join(kinds[:min(5, len(kinds))], ", ")
	}
	return hookCall{}, "", refusef(http.StatusConflict, "n8n runs a workflow on request by a webhook only, and %q has none: %s; add a node n8n-nodes-base.webhook", w.name(), has)
}

func (i *Instance) hookOfNode(n, params, data object) (hookCall, string, error) {
	path := strings.Trim(text(params, "path"), "/")
	name := text(n, "name")
	if isExpression(path) {
		return hookCall{}, "", refusef(http.StatusConflict, "the path of the webhook %q is an expression, which n8n alone can evaluate; trigger_webhook calls a path", name)
	}
	parts := []string{"webhook"}
	if path == "" || strings.Contains(path, ":") { // n8n puts the webhook's id before such a path
		parts = append(parts, text(n, "webhookId"))
	}
	used := object{}
	for key, value := range data {
		used[key] = value
	}
	for _, part := range strings.Split(path, "/") {
		if key, is := strings.CutPrefix(part, ":"); is {
			value, has := used[key]
			if !has || value == "" || strings.Contains(fmt.Sprint(value), "/") {
				return hookCall{}, "", refusef(400, "the webhook %q has the path %s, so inputData needs %s", name, path, key)
			}
			delete(used, key)
			part = url.PathEscape(fmt.Sprint(value))
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	mode := cmp.Or(text(params, "responseMode"), "onReceived")
	return hookCall{method: hookMethod(params), at: i.hooks.base.JoinPath(parts...), data: used}, mode, nil
}

// hookMethod returns the method for calling a webhook. If there are several, it prefers POST.
func hookMethod(params object) string {
	method := cmp.Or(text(params, "httpMethod"), http.MethodGet)
	if several, is := params["httpMethod"].([]any); is {
		method = http.MethodPost
		if !slices.Contains(several, any(method)) && len(several) > 0 {
			method = fmt.Sprint(several[0])
		}
	}
	return strings.ToUpper(method)
}

// finder finds the execution of a call among the executions of a workflow.
type finder struct {
	api      *api
	workflow string
	mark     string
	after    int64           // id of the newest execution before the call
	checked  map[string]bool // ids of executions that belong to other calls
	id       string          // id of the execution, once it is found
}

// newest returns the id of the newest execution, or 0 if there is none.
func (f *finder) newest(ctx context.Context) (int64, error) {
	all, err := f.list(ctx, "", 1)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return numericID(all[0]), nil
}

func numericID(e object) (id int64) {
	_, _ = fmt.Sscan(idText(e["id"]), &id) // an id of another form leaves 0, so that every execution is checked
	return id
}

func (f *finder) list(ctx context.Context, status string, limit int) ([]object, error) {
	query := url.Values{"workflowId": {f.workflow}}
	if status != "" {
		query.Set("status", status)
	}
	return list[object](ctx, f.api, "executions", query, 0, limit)
}

// follow waits for the end of the call's execution, at most until the given time. found is false if none is found, or if n8n has deleted it.
func (f *finder) follow(ctx context.Context, until time.Time) (e object, found bool, err error) {
	last := time.Now().Add(lookups)
	if last.After(until.Add(lookups)) {
		last = until.Add(lookups)
	}
	for pause := minPoll; ; pause = min(maxPoll, pause*2) {
		if e, found, err = f.look(ctx); err != nil && ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		now := time.Now()
		switch {
		case err == nil && found && ended(text(e, "status")):
			return e, true, nil
		case err == nil && f.id != "" && !found: // n8n has deleted the execution
			return nil, false, nil
		case f.id != "" && now.After(until), f.id == "" && now.After(last):
			return e, found, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func ended(status string) bool { return status != "running" && status != "new" && status != "waiting" }

// maxCandidates is the maximum number of executions that are listed to find one.
const maxCandidates = 100

// look reads the execution of the call if it exists.
func (f *finder) look(ctx context.Context) (e object, found bool, err error) {
	if f.id != "" {
		e, found, err = f.read(ctx, f.id, false)
		if found && ended(text(e, "status")) {
			return f.read(ctx, f.id, true)
		}
		return e, found, err
	}
	for _, status := range []string{"", "running"} {
		all, err := f.list(ctx, status, maxCandidates)
		if err != nil {
			return nil, false, err
		}
		for _, candidate := range all {
			id := idText(candidate["id"])
			if n := numericID(candidate); f.checked[id] || n != 0 && n <= f.after {
				continue
			}
			e, has, err := f.read(ctx, id, true)
			if err != nil {
				return nil, false, err
			}
			if has && f.marked(e) {
				f.id = id
				return e, true, nil
			}
			f.checked[id] = has && ended(text(e, "status"))
		}
	}
	return nil, false, nil
}

func (f *finder) read(ctx context.Context, id string, data bool) (e object, found bool, err error) {
	err = f.api.get(ctx, "executions/"+url.PathEscape(id), url.Values{"includeData": {fmt.Sprint(data)}}, &e)
	if r, is := errors.AsType[*refusal](err); is && r.data["status"] == http.StatusNotFound {
		return nil, false, nil
	}
	return e, err == nil, err
}

func (f *finder) marked(e object) bool {
	data, err := json.Marshal(e["data"])
	return err == nil && strings.Contains(string(data), f.mark)
}

// executed returns the answer for an execution.
func (i *Instance) executed(e object, answer *hookAnswer, mode string) object {
	shown := shownExecution(e)
	out := object{"executionId": shown["id"], "status": shown["status"]}
	if failure := objectAt(shown, "error"); failure != nil {
		out["failure"], out["error"] = failure, sentence(failure)
		return out
	}
	switch {
	case answer != nil && mode != "onReceived" && answer.data != nil:
		out["data"] = answer.data
	case ended(text(shown, "status")):
		out["data"] = lastItems(e)
	default:
		out["problem"] = "it has not ended yet; get_execution shows later how it ended"
	}
	return out
}

// sentence returns a failure as one line.
func sentence(failure object) string {
	where := ""
	if node := text(failure, "node"); node != "" {
		where = fmt.Sprintf("node %q", node)
		if item, has := failure["item"]; has {
			where += fmt.Sprintf(", item %v", item)
		}
		where += ": "
	}
	return where + text(failure, "message")
}

// lastItems returns the output of an execution's last node: the JSON of its only item, or of at most maxItems items.
func lastItems(e object) any {
	result := objectAt(objectAt(e, "data"), "resultData")
	runs, _ := objectAt(result, "runData")[text(result, "lastNodeExecuted")].([]any)
	if len(runs) == 0 {
		return nil
	}
	run, _ := runs[len(runs)-1].(object)
	outputs, _ := objectAt(run, "data")[mainType].([]any)
	items := []any{}
	for _, output := range outputs {
		list, _ := output.([]any)
		for _, v := range list {
			item, _ := v.(object)
			items = append(items, item["json"])
		}
	}
	if len(items) == 1 {
		return items[0]
	}
	return items[:min(maxItems, len(items))]
}

// unkept returns the answer for an execution that n8n did not keep.
func unkept(w workflow, answer *hookAnswer, mode string) object {
	out := object{"executionId": "", "status": "unknown", "data": answer.data}
	set := objectAt(object(w), "settings")
	switch {
	case answer.status >= 400:
		out["status"], out["error"] = "error", fmt.Sprintf("the webhook answered HTTP %d", answer.status)
	case mode != "onReceived":
		out["status"] = "success"
	}
	out["problem"] = "n8n kept no execution of it"
	if text(set, "saveDataSuccessExecution") == "none" || text(set, "saveDataErrorExecution") == "none" {
		out["problem"] = "n8n kept no execution of it: the settings saveDataSuccessExecution or saveDataErrorExecution of the workflow are none"
	}
	return out
}
