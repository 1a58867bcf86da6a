package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// Budget limits a task. A field that is left out has its configured value.
type Budget struct {
	_      struct{} `additionalProperties:"true"`
	Turns  int      `json:"turns,omitempty" minimum:"0" doc:"Responses of the model."`
	Runs   int      `json:"runs,omitempty" minimum:"0" doc:"Programs."`
	Tokens int      `json:"tokens,omitempty" minimum:"0" doc:"Model tokens, in and out."`
	Cost   float64  `json:"costUsd,omitempty" minimum:"0" doc:"US dollars, where the model's price is known."`
	Wall   Duration `json:"wall,omitempty" doc:"Time, waiting included."`
}

func (b Budget) task() task.Budget {
	return task.Budget{Turns: b.Turns, Runs: b.Runs, Tokens: b.Tokens, Cost: b.Cost, Wall: task.Duration(b.Wall)}
}

// TaskRequest is the request for a task.
type TaskRequest struct {
	_            struct{}   `additionalProperties:"true"` // clients may send fields that this version does not know
	UserID       string     `json:"userId,omitempty" doc:"The user of the task; a key that is bound to a user may leave it out." maxLength:"100"`
	Task         string     `json:"task" minLength:"1" maxLength:"10000" doc:"The task, in words."`
	SessionID    string     `json:"sessionId,omitempty" doc:"The session that the task continues."`
	Context      any        `json:"context,omitempty" doc:"More information for the model, any JSON."`
	Model        string     `json:"model,omitempty" doc:"A model other than the configured one."`
	CallbackURL  string     `json:"callbackUrl,omitempty" doc:"Gets a signed notification when the task ends (task.ended), and when it waits for an approval (approval_requested). Personal data are tokens, unless server.webhooks.values is set."`
	RunAt        *time.Time `json:"runAt,omitempty" doc:"The task is not worked before this time."`
	Budget       Budget     `json:"budget,omitzero"`
	CacheSeconds int        `json:"cacheSeconds,omitempty" minimum:"0" maximum:"31536000" doc:"The answer of an equal task of the same user is reused if it is not older."`
}

// maxKey is the maximum length of an idempotency key in bytes.
const maxKey = 200

// request converts the request of a caller into a request to the service of tasks.
func (t TaskRequest) request(ctx context.Context, key string) (task.Request, error) {
	user, err := actFor(ctx, t.UserID)
	if err != nil {
		return task.Request{}, err
	}
	var extra json.RawMessage
	if t.Context != nil {
		if extra, err = json.Marshal(t.Context); err != nil {
			return task.Request{}, problem(http.StatusBadRequest, "context is not JSON")
		}
	}
	if len(key) > maxKey {
		return task.Request{}, problem(http.StatusBadRequest, fmt.Sprintf("Idempotency-Key has more than %d characters", maxKey))
	}
	t.UserID = user // BodyHash must not depend on whether the request names the user
	body, err := json.Marshal(t)
	if err != nil {
		return task.Request{}, err
	}
	sum := sha256.Sum256(body)
	return task.Request{
		UserID: user, Principal: identity(ctx).Principal, Roles: identity(ctx).Roles, Task: t.Task, SessionID: t.SessionID, Context: extra, Model: t.Model,
		Callback: t.CallbackURL, Reveal: owns(ctx, user), RunAt: t.RunAt, Budget: t.Budget.task(), IdempotencyKey: key, BodyHash: hex.EncodeToString(sum[:]),
		CacheFor: time.Duration(t.CacheSeconds) * time.Second, Trace: telemetry.Parent(ctx),
	}, nil
}

// submit submits a task for a caller.
func (a *API) submit(ctx context.Context, t TaskRequest, key string) (task.Task, error) {
	r, err := t.request(ctx, key)
	if err != nil {
		return task.Task{}, err
	}
	if err := a.take(ctx); err != nil {
		return task.Task{}, err
	}
	added, _, err := a.opt.Tasks.Submit(ctx, r)
	if errors.Is(err, task.ErrNotFound) {
		return task.Task{}, absent("session")
	}
	visitOf(ctx).task = added.ID
	return added, err
}

// Paging holds the parameters of lists.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string `query:"cursor" doc:"next of the page before."`
}

// TaskList is a page of tasks, without their large fields.
type TaskList struct {
	Tasks []task.Task `json:"tasks" doc:"Without context and logs, which GET /v1/tasks/{id} has."`
	Next  string      `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

func (a *API) addTasks() {
	operation(a, endpoint{
		"createTask", "POST /v1/tasks", "tasks", http.StatusAccepted, "Ask for a task",
		"The task is queued and worked in the background.",
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A repeated request with the same key returns the first one's task."`
		Body TaskRequest
	},
	) (*created[task.Task], error) {
		t, err := a.submit(ctx, in.Body, in.Key)
		if err == nil {
			t, err = a.shownTask(ctx, t)
		}
		return &created[task.Task]{"/v1/tasks/" + t.ID, t}, err
	})

	operation(a, endpoint{"listTasks", "GET /v1/tasks", "tasks", http.StatusOK, "List tasks, newest first", ""}, func(ctx context.Context, in *struct {
		UserID    string `query:"userId"`
		Status    string `query:"status" enum:"queued,running,waiting_approval,succeeded,failed,cancelled"`
		SessionID string `query:"sessionId"`
		Search    string `query:"q" maxLength:"200" doc:"Words of the task, all of which it has; reg* is what begins so. Where personal data are hidden, texts have tokens in place of them."`
		Paging
	},
	) (*body[TaskList], error) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		tasks, next, err := a.opt.Tasks.Tasks(ctx, task.Filter{
			UserID: user, Status: task.Status(in.Status), SessionID: in.SessionID, Search: in.Search, Limit: in.Limit, Cursor: in.Cursor,
		})
		for i := range tasks {
			tasks[i].Context, tasks[i].Logs = nil, []string{}
			if err == nil {
				tasks[i], err = a.shownTask(ctx, tasks[i])
			}
		}
		return &body[TaskList]{TaskList{list(tasks), next}}, err
	})

	operation(a, endpoint{"getTask", "GET /v1/tasks/{id}", "tasks", http.StatusOK, "A task", ""}, func(ctx context.Context, in *ByID) (*body[task.Task], error) {
		t, err := a.ownTask(ctx, in.ID)
		if err == nil {
			t, err = a.shownTask(ctx, t)
		}
		if err == nil {
			t.Repeats, err = a.opt.Harness.Runs().Repeats(ctx, t)
		}
		return &body[task.Task]{t}, err
	})

	operation(a, endpoint{
		"cancelTask", "POST /v1/tasks/{id}/cancel", "tasks", http.StatusOK, "Cancel a task",
		"A task that is being worked ends soon after; its events say when.",
	}, func(ctx context.Context, in *ByID) (*body[task.Task], error) {
		if _, err := a.ownTask(ctx, in.ID); err != nil {
			return nil, err
		}
		t, err := a.opt.Tasks.Cancel(ctx, in.ID)
		if errors.Is(err, task.ErrEnded) {
			if t, _ := a.opt.Tasks.Task(ctx, in.ID); t.Status == task.Cancelled { // an earlier request cancelled it
				t, err := a.shownTask(ctx, t)
				return &body[task.Task]{t}, err
			}
		}
		if err == nil {
			t, err = a.shownTask(ctx, t)
		}
		return &body[task.Task]{t}, err
	})
}
