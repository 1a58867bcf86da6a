package web

import (
	"slices"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/usage"
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
		Used            usage.Figures
	}
	recent, err := read[runList](v, "/v1/runs", "limit", "10")
	if err != nil {
		return err
	}
	running, err := read[runList](v, "/v1/runs", "limit", "200", "status", "running")
	if err != nil {
		return err
	}
	used, err := read[usage.Report](v, "/v1/usage", "since", v.s.opt.Now().Add(-time.Hour).Format(time.RFC3339))
	if err != nil {
		return err
	}
	body.Recent, body.Running, body.Used = recent.Runs, running.Runs, used.Total
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

// troubled reports whether a person has to look at a server.
func troubled(s mcpclient.Status) bool {
	return s.Held > 0 || slices.Contains([]mcpclient.State{mcpclient.StateFailed, mcpclient.StateBackoff, mcpclient.StateNeedsLogin}, s.State)
}
