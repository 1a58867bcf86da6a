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

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// Budget bounds a task; what is left out is as configured.
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

// TaskRequest asks for a task.
type TaskRequest struct {
	_            struct{}   `additionalProperties:"true"` // clients may send more than this version knows
	UserID       string     `json:"userId,omitempty" doc:"Whose task; a key that is bound to a user may leave it out." maxLength:"100"`
	Task         string     `json:"task" minLength:"1" maxLength:"10000" doc:"What is to be done, in words."`
	SessionID    string     `json:"sessionId,omitempty" doc:"The conversation that it goes on with."`
	Context      any        `json:"context,omitempty" doc:"What the model is told besides, any JSON."`
	Model        string     `json:"model,omitempty" doc:"Another model than the configured one."`
	CallbackURL  string     `json:"callbackUrl,omitempty" doc:"Is told of the end, signed."`
	RunAt        *time.Time `json:"runAt,omitempty" doc:"Not before."`
	Budget       Budget     `json:"budget,omitzero"`
	CacheSeconds int        `json:"cacheSeconds,omitempty" minimum:"0" maximum:"31536000" doc:"The answer of an equal task of the user may be given again, if it is not older."`
}

// maxKey is the length of an idempotency key.
const maxKey = 200

// request is the request as the service takes it.
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
	t.UserID = user // whether or not it was sent
	body, err := json.Marshal(t)
	if err != nil {
		return task.Request{}, err
	}
	sum := sha256.Sum256(body)
	return task.Request{
		UserID: user, Principal: identity(ctx).Principal, Task: t.Task, SessionID: t.SessionID, Context: extra, Model: t.Model,
		Callback: t.CallbackURL, RunAt: t.RunAt, Budget: t.Budget.task(), IdempotencyKey: key, BodyHash: hex.EncodeToString(sum[:]),
		CacheFor: time.Duration(t.CacheSeconds) * time.Second, Trace: telemetry.Parent(ctx),
	}, nil
}

// submit adds a task for a caller.
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

// Paging is what lists take.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string `query:"cursor" doc:"next of the page before."`
}

// TaskPath names a task.
type TaskPath struct {
	ID string `path:"id" doc:"Task id."`
}

// TaskList is a page of tasks, without what makes them big.
type TaskList struct {
	Tasks []task.Task `json:"tasks" doc:"Without context and logs: a task alone has them."`
	Next  string      `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one."`
}

func (a *API) addTasks() {
	operation(a, huma.Operation{
		OperationID: "createTask", Method: http.MethodPost, Path: "/v1/tasks", Tags: []string{"tasks"},
		Summary: "Ask for a task", Description: "The task is queued and worked in the background.", DefaultStatus: http.StatusAccepted,
	}, func(ctx context.Context, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A repeated request with the same key returns the first one's task."`
		Body TaskRequest
	},
	) (*created[task.Task], error) {
		t, err := a.submit(ctx, in.Body, in.Key)
		return &created[task.Task]{"/v1/tasks/" + t.ID, t}, err
	})

	operation(a, huma.Operation{
		OperationID: "listTasks", Method: http.MethodGet, Path: "/v1/tasks", Tags: []string{"tasks"}, Summary: "List tasks, newest first",
	}, func(ctx context.Context, in *struct {
		UserID    string `query:"userId"`
		Status    string `query:"status" enum:"queued,running,waiting_approval,succeeded,failed,cancelled"`
		SessionID string `query:"sessionId"`
		Paging
	},
	) (*body[TaskList], error) {
		user, err := seeUser(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		tasks, next, err := a.opt.Tasks.Tasks(ctx, task.Filter{
			UserID: user, Status: task.Status(in.Status), SessionID: in.SessionID, Limit: in.Limit, Cursor: in.Cursor,
		})
		for i := range tasks {
			tasks[i].Context, tasks[i].Logs = nil, []string{}
		}
		return &body[TaskList]{TaskList{list(tasks), next}}, err
	})

	operation(a, huma.Operation{
		OperationID: "getTask", Method: http.MethodGet, Path: "/v1/tasks/{id}", Tags: []string{"tasks"}, Summary: "A task",
	}, func(ctx context.Context, in *TaskPath) (*body[task.Task], error) {
		t, err := a.ownTask(ctx, in.ID)
		return &body[task.Task]{t}, err
	})

	operation(a, huma.Operation{
		OperationID: "cancelTask", Method: http.MethodPost, Path: "/v1/tasks/{id}/cancel", Tags: []string{"tasks"}, Summary: "Cancel a task",
		Description: "One that is being worked ends soon after: its events tell when.",
	}, func(ctx context.Context, in *TaskPath) (*body[task.Task], error) {
		if _, err := a.ownTask(ctx, in.ID); err != nil {
			return nil, err
		}
		t, err := a.opt.Tasks.Cancel(ctx, in.ID)
		if errors.Is(err, task.ErrEnded) {
			if t, _ := a.opt.Tasks.Task(ctx, in.ID); t.Status == task.Cancelled { // by an earlier request
				return &body[task.Task]{t}, nil
			}
		}
		return &body[task.Task]{t}, err
	})
}
