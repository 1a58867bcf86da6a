package web

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/task"
)

func (v *visit) tasks() error {
	got, err := read[taskList](v, "/v1/tasks", v.filters("status", "sessionId", "userId", "q")...)
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
		one, shown, err := stepOf(e)
		if err != nil {
			return err
		}
		if shown {
			body.Steps = append(body.Steps, one)
		}
	}
	of := view{Title: "Task " + t.ID, Nav: "tasks", Live: !t.Status.Ended(), Body: body}
	if of.Live && body.After == "" {
		of.Stream = at("/tasks/", t.ID, "/live")
	}
	return v.show("task", of)
}

// stepOf is an event as the page of its task shows it, and whether it does.
func stepOf(e task.Event) (one step, shown bool, err error) {
	one = step{Event: e}
	var of struct {
		RunID  string          `json:"runId"`
		Code   json.RawMessage `json:"code"`
		Output json.RawMessage `json:"output"`
		Error  json.RawMessage `json:"error"`
	}
	switch e.Type {
	case task.EventCall, task.EventAnswer, task.EventQueued, task.EventStarted: // the run's page has the calls
		return one, false, nil
	case task.EventTurn:
		return one, true, json.Unmarshal(e.Data, &one.Turn)
	}
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
	return one, true, nil
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
