package web

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

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
	for stored := 0; ; stored++ {
		p, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && stored > 0:
			return v.to(at("/sessions/", id), "uploaded")
		case errors.Is(err, io.EOF):
			return &refusal{Status: http.StatusBadRequest, Detail: "no file is chosen"}
		case err != nil:
			return &refusal{Status: http.StatusBadRequest, Detail: strconv.Itoa(stored) + " files are stored; the rest of the form did not arrive"}
		}
		name := strings.TrimSpace(p.FileName())
		if name == "" {
			return &refusal{Status: http.StatusBadRequest, Detail: strconv.Itoa(stored) + " files are stored; the next one has no name"}
		}
		got := v.answer()
		if err := v.exchange(got, http.MethodPut, at("/v1/sessions/", id, "/files/", name)+user, p, -1, "application/octet-stream"); err != nil {
			return err
		}
		if err := got.refused(); err != nil {
			return err
		}
	}
}
