package web

import (
	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/task"
)

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
		Folder folder
		Put    inputs
		Tasks  []task.Task
		Runs   []api.RunLine
	}
	user := v.query("userId")
	if err := v.get(at("/v1/sessions/", id), &body.Session, "userId", user); err != nil {
		return err
	}
	files, err := read[api.FileList](v, at("/v1/sessions/", id, "/files"), "userId", user)
	if err != nil {
		return err
	}
	tasks, err := read[taskList](v, "/v1/tasks", "sessionId", id, "userId", user)
	if err != nil {
		return err
	}
	ran, err := read[runList](v, "/v1/runs", "sessionId", id, "userId", user)
	if err != nil {
		return err
	}
	body.Put = v.inputs(id)
	body.Tasks, body.Runs = tasks.Tasks, ran.Runs
	body.Folder = v.folder(files.Files, at("/sessions/", id), body.UserID)
	return v.show("session", view{Title: "Session " + id, Nav: "sessions", Live: true, Body: body})
}
