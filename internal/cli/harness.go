package cli

import (
	"context"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/recording"
	"mcp-code-exec-harness/internal/sandbox/docker"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/wiring"
)

// This file is the only one that knows what joins the parts.
type (
	// outside is the outside world of a harness, and taskOptions say how its tasks are worked.
	outside     = wiring.Outside
	taskOptions = wiring.TaskOptions
)

// harness is what commands need of the joined parts. Its methods are safe for concurrent use.
type harness interface {
	api.Harness
	Store() (store, error)
	Keys() (*auth.Keys, error)
	Tasks(opt taskOptions) (*task.Service, error)
	// Models makes the configured model, which "" names too, and those of model.allow.
	Models() func(name string) (model.Model, error)
	// Record makes opt record the one task that is worked with it.
	Record(opt *taskOptions, text, modelName string) (*recording.Recorder, error)
	// ReplayTask makes opt work a task from a recording.
	ReplayTask(opt *taskOptions, rec *recording.Recording)
	// Confirmation is what a person confirms of the policy in effect.
	Confirmation() policy.Confirmation
	// Logins is what logs in to a server.
	Logins(server string) (*credentials.OAuth, error)
	// N8N is the instance of n8n that the configuration names; nil: it names none.
	N8N() *n8n.Instance
	// Containers lists the images and containers of the docker tier.
	Containers(ctx context.Context) (*docker.Listing, error)
	// Warm opens the configured tier and keeps runners ready, in the background.
	Warm(runners int)
	Close(ctx context.Context) error
}

// store is what commands need of the store beyond its services.
type store interface {
	// LockQueue makes this process the one that works the queue; task.ErrQueueLocked names the process that holds the lock.
	LockQueue(ctx context.Context) (release func() error, err error)
	ReadPage(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error)
}

// joined is the harness as commands need it.
type joined struct{ *wiring.Harness }

// Store opens the store of runs.
func (j joined) Store() (store, error) { return j.Harness.Store() }

// join joins the parts that a configuration names, and starts none.
func join(ctx context.Context, cfg *config.Config, out outside) (harness, error) {
	h, err := wiring.Open(ctx, cfg, out)
	if err != nil {
		return nil, err
	}
	return joined{h}, nil
}
