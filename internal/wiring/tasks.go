package wiring

import (
	"cmp"
	"context"
	"time"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/recording"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// forever is the expiry of sessions for which the configuration sets none.
const forever = 100 * 365 * 24 * time.Hour

// TaskOptions configure the service of tasks.
type TaskOptions struct {
	// Begun is called when task.Service.Work holds the lock on the store's queue. Allow is called before a schedule makes a task; see task.Options.
	Begun func()
	Allow func(principal string) (after time.Duration, ok bool)
	// Models replaces the configured models if it is not nil.
	Models func(name string) (model.Model, error)
	// Runs replaces the sandbox, and Catalog replaces the tools, while a task is recorded or replayed. Nil replaces nothing.
	Runs    agent.Runs
	Catalog agent.Catalog
	NewID   func() string // returns the IDs of runs; nil: random IDs
}

// Tasks builds the service of tasks.
func (h *Harness) Tasks(opt TaskOptions) (*task.Service, error) {
	store, err := h.store()
	if err != nil {
		return nil, err
	}
	c := h.cfg
	var prompts *agent.Prompts
	if c.Model.Prompts != "" {
		if prompts, err = agent.LoadPrompts(c.Model.Prompts); err != nil {
			return nil, err
		}
	}
	if opt.Models == nil {
		opt.Models = h.Models()
	}
	opt.Runs = cmp.Or[agent.Runs](opt.Runs, h.runs.ForTasks())
	opt.Catalog = cmp.Or[agent.Catalog](opt.Catalog, agent.NewCatalog(h.catalog, h.EnsureTools))
	if opt.NewID == nil {
		opt.NewID = func() string { return id.New("run") }
	}
	prices := prices(c.Model.Prices)
	loop := agent.New(agent.Options{
		Models: func(name string) (model.Model, error) {
			m, err := opt.Models(name)
			if err != nil {
				return nil, err
			}
			return telemetry.ObserveModel(m, prices, h.out.Metrics), nil
		},
		Runs: opt.Runs, Catalog: opt.Catalog, Prompts: prompts, Has: h.Features(), Prices: prices,
		Budget: task.Budget{
			Turns: c.Model.MaxTurns, Runs: c.Model.MaxRuns, Tokens: c.Model.MaxTaskTokens, Cost: c.Model.MaxCost, Wall: task.Duration(c.Model.MaxTaskTime),
		},
		Privacy: h.privacy, Now: h.out.Now, NewID: opt.NewID,
	})
	uses, err := h.uses()
	if err != nil {
		return nil, err
	}
	return task.NewService(task.Options{
		Store: store, Bus: store, Uses: uses, Worker: telemetry.ObserveWorker(loop.Do), Begun: opt.Begun, Allow: opt.Allow, Privacy: h.privacy,
		HandOver: run.ErrHandedOver, Forget: h.runs.Forget, Abandon: loop.Abandon, SessionExpiry: cmp.Or(c.Session.Expiry, forever),
		Admit:   func(r task.Request) error { return loop.Admit(r.Model, r.Budget) },
		OnEnd:   func(t task.Task) { h.out.Metrics.TaskEnded(&t) },
		Workers: cmp.Or(c.Server.Workers, task.DefaultWorkers()), Grace: c.Server.ShutdownTimeout, Now: h.out.Now, Logger: h.out.Logger,
		Webhooks: h.webhooks(),
	}), nil
}

// webhooks returns the options for delivering webhooks.
func (h *Harness) webhooks() task.Webhooks {
	c := h.cfg.Server.Webhooks
	hooks := task.Webhooks{
		Count: h.out.Metrics.Webhook, Secret: []byte(c.Secret), AllowPrivate: c.AllowPrivate, MaxAttempts: c.MaxAttempts, Version: h.out.Version,
	}
	if c.Values {
		hooks.Reveal = func(ctx context.Context, t task.Task) (task.Task, error) { return task.Shown(ctx, h.privacy, t) }
	}
	return hooks
}

// prices returns the known prices, overridden by those of the configuration.
func prices(configured map[string]config.Price) model.Prices {
	prices := model.KnownPrices()
	for name, p := range configured {
		prices[name] = model.Price(p)
	}
	return prices
}

// Models returns a function that makes a model by name. The name is that of the configured model or of one in model.allow; an empty name stands for
// the configured model. The error of the function says which setting is missing.
func (h *Harness) Models() func(name string) (model.Model, error) {
	return model.Choices(h.cfg.Model.Allow, func() (model.Config, error) {
		c := h.cfg.Model
		choice, err := c.Choose()
		return model.Config{
			Provider: choice.Provider, Name: choice.Name, APIKey: choice.APIKey, BaseURL: choice.BaseURL, Timeout: c.Timeout,
			MaxRetries: c.MaxRetries, MaxTokens: c.MaxTokens, ContextWindow: c.ContextWindow, Tools: c.Tools,
		}, err
	})
}

// Record changes opt so that the service records a task. Only one task may be executed with opt.
func (h *Harness) Record(opt *TaskOptions, text, modelName string) (*recording.Recorder, error) {
	m, err := h.Models()(modelName)
	if err != nil {
		return nil, err
	}
	r := recording.NewRecorder(text, m, h.runs.ForTasks(), agent.NewCatalog(h.catalog, h.EnsureTools))
	opt.Models = func(string) (model.Model, error) { return r.Model, nil }
	opt.Runs, opt.Catalog = r, r
	return r, nil
}

// ReplayTask changes opt so that the service executes a task from a recording, without contacting a model or server.
func (h *Harness) ReplayTask(opt *TaskOptions, rec *recording.Recording) {
	m := model.NewRecorded(rec.Model)
	opt.Models = func(string) (model.Model, error) { return m, nil }
	p := recording.NewPlayer(rec, h.runs.ReplayForTask)
	opt.Runs, opt.Catalog, opt.NewID = p, p, p.NewID
}
