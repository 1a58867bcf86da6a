package web

import (
	"slices"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

func (v *visit) now() error {
	var body struct {
		Running, Recent []api.RunLine
		Tasks           []task.Task
		Waiting         []approval.Request
		Doubts          []runs.Doubt
		MoreDoubts      bool
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
	doubts, err := read[api.DoubtList](v, "/v1/doubts", "limit", "20")
	if err != nil {
		return err
	}
	body.Doubts, body.MoreDoubts = doubts.Doubts, doubts.Next != ""
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
