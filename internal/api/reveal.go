package api

import (
	"context"
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Texts of tasks and runs contain tokens in place of personal data. A caller who acts for the owner of a task or a run gets the values in the
// request (the task and its context) and in the answer (text and output). Console lines, errors, journals and the arguments of approvals keep the
// tokens; a single approval request also lists the values beside the arguments.

// owns reports whether the caller acts for this user, or for all users.
func owns(ctx context.Context, user string) bool {
	who := identity(ctx)
	return who.User == "" || who.User == user
}

// shownTask returns a task as the caller may see it.
func (a *API) shownTask(ctx context.Context, t task.Task) (task.Task, error) {
	if !owns(ctx, t.UserID) {
		return t, nil
	}
	return task.Shown(ctx, a.opt.Harness.Privacy(), t)
}

// shownOutcome returns the outcome of a run as the caller may see it.
func (a *API) shownOutcome(ctx context.Context, user, session string, out *run.Outcome) (*run.Outcome, error) {
	if !owns(ctx, user) {
		return out, nil
	}
	return a.opt.Harness.Runs().Shown(ctx, user, session, out)
}

// shownEvents returns a function that converts events of a task into what the caller may see. A token may be split across several events.
func (a *API) shownEvents(ctx context.Context, t task.Task) func(task.Event) (task.Event, error) {
	var p pii.Session
	if owns(ctx, t.UserID) {
		p = a.opt.Harness.Privacy().In(t.UserID, t.SessionID)
	}
	var text restoring
	return func(e task.Event) (task.Event, error) {
		var err error
		switch e.Type {
		case task.EventLog, task.EventProgress, task.EventApprovalRequested, task.EventApprovalDecided:
		case task.EventEnded:
			var ended task.Task
			if err = json.Unmarshal(e.Data, &ended); err != nil {
				return e, err
			}
			if ended, err = a.shownTask(ctx, ended); err == nil {
				e.Data, err = json.Marshal(ended)
			}
		case task.EventDelta:
			e.Data, err = text.delta(ctx, p, e.Data)
		default:
			text = restoring{}
			e.Data, _, err = p.RestoreJSON(ctx, e.Data)
		}
		return e, err
	}
}

// restoring replaces the tokens in a text that arrives in pieces. It holds back what may be the beginning of a token until the rest arrives.
type restoring struct{ held string }

// maxToken is the maximum length of a token.
const maxToken = 80

// piece adds a piece and returns the text that can be shown now. last means that no pieces follow.
func (r *restoring) piece(ctx context.Context, p pii.Session, piece string, last bool) (string, error) {
	text := r.held + piece
	r.held = ""
	if open := strings.LastIndexByte(text, '['); !last && open >= 0 && len(text)-open < maxToken && !strings.Contains(text[open:], "]") {
		text, r.held = text[:open], text[open:]
	}
	return p.Restore(ctx, text)
}

// delta replaces the tokens in the text of a delta event.
func (r *restoring) delta(ctx context.Context, p pii.Session, data json.RawMessage) (json.RawMessage, error) {
	var d map[string]json.RawMessage
	var text string
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	if d["reset"] != nil {
		r.held = ""
	}
	if d["text"] == nil || json.Unmarshal(d["text"], &text) != nil {
		return data, nil
	}
	shown, err := r.piece(ctx, p, text, false)
	if err != nil || shown == text {
		return data, err
	}
	if d["text"], err = json.Marshal(shown); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}
