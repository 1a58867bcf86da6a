package cli

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/credentials"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/recording"
	"mcp-code-exec-harness/internal/sandbox/docker"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/web"
	"mcp-code-exec-harness/internal/wiring"
)

// Only this file uses package wiring.
type (
	// outside is the environment of a harness, and taskOptions configure its service of tasks.
	outside     = wiring.Outside
	taskOptions = wiring.TaskOptions
)

// harness is the part of wiring.Harness that commands use. Its methods are safe for concurrent use.
type harness interface {
	api.Harness
	Store() (store, error)
	Keys() (*auth.Keys, error)
	Tasks(opt taskOptions) (*task.Service, error)
	// Models returns a function that makes a model by name: the configured one, also named "", or one of model.allow.
	Models() func(name string) (model.Model, error)
	// Record changes opt so that the service records its task. Only one task may be worked with opt.
	Record(opt *taskOptions, text, modelName string) (*recording.Recorder, error)
	// ReplayTask changes opt so that the service works a task from a recording.
	ReplayTask(opt *taskOptions, rec *recording.Recording)
	// Confirmation returns what a person has to confirm about the current policy.
	Confirmation() policy.Confirmation
	// Logins returns the OAuth login of a server.
	Logins(server string) (*credentials.OAuth, error)
	// N8N returns the configured instance of n8n, or nil.
	N8N() *n8n.Instance
	// Containers lists the images and containers of the docker tier.
	Containers(ctx context.Context) (*docker.Listing, error)
	// Common returns the secrets that all processes on the store share.
	Common() *seal.Common
	// Warm opens the configured tier in the background and keeps the given number of runners ready.
	Warm(runners int)
	Close(ctx context.Context) error
}

// store has the methods of the store that commands call directly.
type store interface {
	// QueueWorker returns the name of a process that works the queue, or "" if there is none.
	QueueWorker(ctx context.Context) (name string, err error)
	Load(ctx context.Context, now time.Time) (task.Load, error)
	// Inspect describes the store, and warns about settings of its server.
	Inspect(ctx context.Context) (detail string, warnings []string, err error)
	// Rows returns the number of rows of each table, -1 for one that cannot be read.
	Rows(ctx context.Context) map[string]int64
	ReadPage(ctx context.Context, run string, after int64, limit, bytes int) ([]journal.Record, error)
	// Remote reports whether processes on other machines may use the store. Only then it counts requests.
	Remote() bool
	// KeysRevoked calls f soon after a key was revoked; see api.Options.
	KeysRevoked(ctx context.Context, f func()) error
	auth.Rates
	web.Once
}

// joined implements harness.
type joined struct{ *wiring.Harness }

// Store opens the store of runs.
func (j joined) Store() (store, error) { return j.Harness.Store() }

// join joins the parts of the harness that a configuration names. It starts no server.
func join(ctx context.Context, cfg *config.Config, out outside) (harness, error) {
	h, err := wiring.Open(ctx, cfg, out)
	if err != nil {
		return nil, err
	}
	return joined{h}, nil
}
