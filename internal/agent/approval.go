package agent

import (
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// wait suspends the task until people have decided about the waiting calls of its run.
func (w *work) wait(out *run.Outcome, events []task.Event) error {
	r := out.Approval
	w.unsaved.Events = append(append(w.unsaved.Events, events...), w.event(task.EventApprovalRequested, r.ID+"/requested", task.ApprovalRequestedData{
		ApprovalID: r.ID, RunID: r.Run, Expires: r.Expires, Calls: waitingCalls(r.Calls),
	}))
	return &task.WaitError{Request: r.ID, Until: r.Expires}
}

// waitingCalls returns the data of calls for an event.
func waitingCalls(calls []approval.Call) []task.WaitingCall {
	all := []task.WaitingCall{}
	for _, c := range calls {
		all = append(all, task.WaitingCall{N: c.N, Tool: c.Tool, Args: bounded(c.Args, maxEventValue)})
	}
	return all
}
