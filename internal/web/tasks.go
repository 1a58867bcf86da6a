package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/task"
)

// request is the form that starts a task.
type request struct {
	inputs
	Task, User, Error string
}

func (v *visit) tasks() error {
	return v.showTasks(http.StatusOK, request{inputs: v.inputs(v.query("sessionId"))})
}

func (v *visit) showTasks(status int, form request) error {
	got, err := read[taskList](v, "/v1/tasks", v.filters("status", "sessionId", "userId", "q")...)
	if err != nil {
		return err
	}
	return v.render(status, "tasks", view{Title: "Tasks", Nav: "tasks", Live: v.query("cursor") == "" && form.Error == "", Body: struct {
		list[task.Task]
		Request request
	}{listOf(v, got.Tasks, got.Next, "queued", "running", "waiting_approval", "succeeded", "failed", "cancelled"), form}})
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
	Run  string // id of the run that the event belongs to
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
		After string // address of later events; empty if there are none
		Next  inputs
	}{Task: t, Next: v.inputs(t.SessionID)}
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

// stepOf returns an event as the page of its task shows it. shown is false if the page leaves the event out.
func stepOf(e task.Event) (one step, shown bool, err error) {
	one = step{Event: e}
	var of struct {
		RunID  string          `json:"runId"`
		Code   json.RawMessage `json:"code"`
		Output json.RawMessage `json:"output"`
		Error  json.RawMessage `json:"error"`
	}
	switch e.Type {
	case task.EventCall, task.EventAnswer, task.EventQueued, task.EventStarted: // the page of the run shows the calls
		return one, false, nil
	case task.EventTurn:
		return one, true, json.Unmarshal(e.Data, &one.Turn)
	}
	if json.Unmarshal(e.Data, &of) == nil {
		one.Run = of.RunID
		_ = json.Unmarshal(of.Code, &one.Code) // events of other types have no program
		if of.Output != nil && of.Error == nil {
			one.Data = of.Output
		}
	}
	if e.Type == task.EventEnded { // the page shows the outcome of the task at the top
		one.Data, one.Run, one.Code = nil, "", ""
	}
	return one, true, nil
}

func (v *visit) newTask() error {
	given, err := v.attach()
	form := request{inputs: given, Task: v.form("task"), User: strings.TrimSpace(v.form("userId"))}
	var t task.Task
	if err == nil {
		ask := map[string]any{"task": form.Task + given.sentence()}
		for name, value := range map[string]string{"sessionId": given.Session, "model": strings.TrimSpace(v.form("model")), "userId": form.User} {
			if value != "" {
				ask[name] = value
			}
		}
		err = v.send(http.MethodPost, "/v1/tasks", ask, &t)
	}
	if refused, ok := errors.AsType[*refusal](err); ok { // The form keeps its input, and the files that are stored.
		form.Error = refused.Error()
		return v.showTasks(refused.Status, form)
	}
	if err != nil {
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
