package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pbnjay/memory"

	"mcp-code-exec-harness/internal/agent"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// forever is when sessions expire that never do.
const forever = 100 * 365 * 24 * time.Hour

// TaskOptions are how tasks are worked.
type TaskOptions struct {
	// Begun is called when Work holds the lock on the store's queue; Allow is asked before a schedule makes a task, see task.Options.
	Begun func()
	Allow func(principal string) (after time.Duration, ok bool)
	// Models replaces the configured models; nil does not.
	Models func(name string) (model.Model, error)
	// Runs replaces the sandbox, and Catalog the tools, where a recording answers; nil does not.
	Runs    agent.Runs
	Catalog agent.Catalog
	NewID   func() string // names runs; nil is at random
}

// Tasks joins the service of tasks.
func (h *Harness) Tasks(opt TaskOptions) (*task.Service, error) {
	keep, err := h.store()
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
	opt.Models = observed(opt.Models, prices(c.Model.Prices), h.out.Metrics)
	if opt.Runs == nil {
		opt.Runs = &taskRuns{h}
	}
	if opt.Catalog == nil {
		opt.Catalog = agent.NewCatalog(h.catalog, h.EnsureTools)
	}
	if opt.NewID == nil {
		opt.NewID = func() string { return id.New("run") }
	}
	loop := agent.New(agent.Options{
		Models: opt.Models, Runs: opt.Runs, Catalog: opt.Catalog, Prompts: prompts, Prices: prices(c.Model.Prices),
		Budget: task.Budget{
			Turns: c.Model.MaxTurns, Runs: c.Model.MaxRuns, Tokens: c.Model.MaxTaskTokens, Cost: c.Model.MaxCost, Wall: task.Duration(c.Model.MaxTaskTime),
		},
		Privacy: h.out.Privacy, Now: h.out.Now, NewID: opt.NewID,
	})
	expiry := c.Session.Expiry
	if expiry == 0 {
		expiry = forever
	}
	return task.NewService(task.Options{
		Store: keep, Worker: traced(loop.Do), Begun: opt.Begun, Allow: opt.Allow, Privacy: h.out.Privacy, Park: run.ErrParked, Forget: h.forget, Abandon: h.leave, SessionExpiry: expiry,
		Admit:   func(r task.Request) error { return loop.Admit(r.Model, r.Budget) },
		OnEnd:   func(t task.Task) { h.out.Metrics.TaskEnded(&t) },
		Workers: workers(c.Server.Workers), Grace: c.Server.ShutdownTimeout, Now: h.out.Now, Logger: h.out.Logger,
		Webhooks: task.Webhooks{
			Count:  h.out.Metrics.Webhook,
			Secret: []byte(c.Server.Webhooks.Secret), AllowPrivate: c.Server.Webhooks.AllowPrivate,
			MaxAttempts: c.Server.Webhooks.MaxAttempts, Version: h.out.Version,
		},
	}), nil
}

// workers is how many tasks may be in work. One holds its conversation in memory, seldom more than 4 MiB with all that is made of it.
func workers(configured int) int {
	if configured > 0 {
		return configured
	}
	const each, share, least, most = 4 << 20, 4, 256, 4096
	return int(min(max(memory.TotalMemory()/share/each, least), most))
}

// leave ends the run in which a task was left, and returns its effects.
func (h *Harness) leave(ctx context.Context, id string) ([]task.Effect, error) {
	out, err := (&taskRuns{h}).Abandon(ctx, agent.Program{RunID: id, Observe: func(run.Event) {}})
	if out == nil || err != nil {
		return nil, err
	}
	var effects []task.Effect
	for _, e := range out.Effects {
		effects = append(effects, task.Effect(e))
	}
	return effects, nil
}

// forget removes the workspace of a session.
func (h *Harness) forget(_ context.Context, user, session string) error {
	work, err := h.workspace()
	if err != nil {
		return err
	}
	return work.Remove(user, session)
}

// prices are the known ones with those of the configuration.
func prices(configured map[string]config.Price) model.Prices {
	more := model.Prices{}
	for name, p := range configured {
		more[name] = model.Price(p)
	}
	return model.KnownPrices().With(more)
}

// Models makes the models of the configuration: the configured one, which "" names too, and those of model.allow. An error
// says what to set.
func (h *Harness) Models() func(name string) (model.Model, error) {
	var mu sync.Mutex
	made := map[string]model.Model{}
	return func(name string) (model.Model, error) {
		mu.Lock()
		defer mu.Unlock()
		if m := made[name]; m != nil {
			return m, nil
		}
		c := h.cfg.Model
		choice, err := c.Choose()
		if err != nil {
			return nil, err
		}
		if name != "" && name != choice.Name && !slices.Contains(c.Allow, name) {
			return nil, fmt.Errorf("model is not one that requests may name: %s (model.name, model.allow)", strings.Join(append([]string{choice.Name}, c.Allow...), ", "))
		}
		choice.Name = cmp.Or(name, choice.Name)
		retries := c.MaxRetries
		if retries == 0 {
			retries = -1 // never
		}
		m, err := model.New(model.Config{
			Provider: choice.Provider, Name: choice.Name, APIKey: choice.APIKey, BaseURL: choice.BaseURL, Timeout: c.Timeout,
			MaxRetries: retries, MaxTokens: c.MaxTokens, ContextWindow: c.ContextWindow, Tools: c.Tools,
		})
		if err != nil {
			return nil, err
		}
		made[name] = m
		return m, nil
	}
}

// traced gives the work on a task its span, below that of the request, and its id to the log.
func traced(work task.Worker) task.Worker {
	return func(ctx context.Context, t task.Task, history []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		ctx, end := telemetry.StartTask(telemetry.Below(telemetry.WithIDs(ctx, t.ID, ""), t.Trace), &t)
		ended, err := work(ctx, t, history, steps, log)
		end(&ended)
		return ended, err
	}
}

// observed are models whose turns are counted and traced.
func observed(models func(string) (model.Model, error), prices model.Prices, metrics *telemetry.Metrics) func(string) (model.Model, error) {
	return func(name string) (model.Model, error) {
		m, err := models(name)
		if err != nil {
			return nil, err
		}
		return &observedModel{m, prices, metrics}, nil
	}
}

type observedModel struct {
	model.Model
	prices  model.Prices
	metrics *telemetry.Metrics
}

func (m *observedModel) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	ctx, end := telemetry.StartModel(ctx, m.Info())
	began := time.Now()
	turn, err := m.Model.Generate(ctx, req)
	end(turn, err)
	var usage model.Usage
	var cost *float64
	if turn != nil {
		usage = turn.Usage
		if usd, known := m.prices.Cost(turn.Provider, turn.Model, usage); known {
			cost = &usd
		}
	}
	m.metrics.ModelTurn(m.Info(), usage, cost, time.Since(began), err)
	return turn, err
}

// taskRuns is the service of runs as the agent needs it.
type taskRuns struct{ h *Harness }

var _ agent.Runs = (*taskRuns)(nil)

// TaskRuns executes programs as tasks do.
func (h *Harness) TaskRuns() agent.Runs { return &taskRuns{h} }

func (r *taskRuns) Execute(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	execute := r.h.runs.Continue
	if p.New {
		execute = r.h.runs.Execute
	}
	out, err := execute(ctx, runs.Request{ID: p.RunID, Code: p.Code, User: p.User, Session: p.Session, Observe: p.Observe})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return nil, err
	}
	return out, nil
}

// Abandon implements agent.Runs.
func (r *taskRuns) Abandon(ctx context.Context, p agent.Program) (*run.Outcome, error) {
	if err := r.h.runs.Abandon(ctx, p.RunID); err != nil {
		return nil, err
	}
	records, err := r.h.runs.Journal(ctx, p.RunID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run.Observe(records, p.Observe)
	return run.Recorded(records)
}

func (r *taskRuns) Keep(_ context.Context, user, session, name string, data []byte) (string, error) {
	return r.h.runs.SaveResult(user, session, "", name, data)
}

func (r *taskRuns) Skills(_ context.Context, user string) ([]agent.Skill, error) {
	saved, err := r.h.skills()
	if err != nil {
		return nil, err
	}
	all, err := saved.List(user)
	if err != nil {
		return nil, err
	}
	var list []agent.Skill
	for _, s := range all {
		if s.Problem == "" {
			list = append(list, agent.Skill{Name: s.Path, Description: s.Description})
		}
	}
	return list, nil
}

// NewServer is an upstream server that is added while the harness runs.
type NewServer struct {
	Name, Transport, URL string
	Headers              map[string]string
	Command              string
	Args                 []string
	Env                  map[string]string
}

// AddServer adds a server until the harness is closed. It starts when it is needed.
func (h *Harness) AddServer(_ context.Context, s NewServer) error {
	kind := s.Transport
	if kind == "" {
		if kind = config.HTTP; s.Command != "" {
			kind = config.Stdio
		}
	}
	if (kind == config.Stdio) != (s.Command != "") || (kind != config.Stdio) != (s.URL != "") {
		return errors.New("give a url, or a command with the transport stdio")
	}
	h.servers.changing.Lock()
	defer h.servers.changing.Unlock()
	return h.servers.Add(h.connection(&config.MCPServer{
		Name: s.Name, Type: kind, URL: s.URL, Headers: s.Headers, Command: s.Command, Args: s.Args, Env: s.Env, Enabled: true,
		StartupTimeout: time.Minute, Timeout: h.cfg.Sandbox.CallTimeout,
	}))
}

// RemoveServer ends a server and forgets its tools.
func (h *Harness) RemoveServer(ctx context.Context, name string) error {
	h.servers.changing.Lock()
	defer h.servers.changing.Unlock()
	if err := h.servers.Remove(ctx, name); err != nil {
		return err
	}
	h.servers.forget(name)
	return nil
}
