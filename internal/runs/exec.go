package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/telemetry"
)

// Request is a program to run.
type Request struct {
	ID      string // of the run; a new one when empty
	Code    string
	File    string // its name as the user knows it; messages use it
	User    string // "local" when empty
	Session string // keeps /workspace between runs; a session of its own, removed at the end, when empty
	Timeout time.Duration
	Observe func(run.Event)
	// Progress is told what servers report of calls under way, from several goroutines; nil for nobody.
	Progress func(call int, p mcpclient.Progress)
}

// Execute compiles and executes a program and records its journal. A program that does not compile is an outcome too.
func (s *Service) Execute(ctx context.Context, req Request) (out *run.Outcome, err error) {
	// A first run waits for the sandbox and the store: they open while the program is compiled.
	s.opening.Go(func() { s.opt.Pool() })
	s.opening.Go(func() { s.opt.Store() })
	if req.User == "" {
		req.User = DefaultUser
	}
	id := cmp.Or(req.ID, id.New("run"))
	env, err := s.open(req.User, req.Session, id)
	if err != nil {
		return nil, err
	}
	defer func() { env.close(err == nil) }()
	if req.Code, err = env.privacy.Hide(ctx, req.Code); err != nil {
		return nil, err
	}
	limits := s.limits(req.Timeout)
	var computed time.Duration
	compiling, stop := context.WithTimeout(ctx, limits.MaxWall)
	compiled, err := program.Compile(compiling, program.Source{Name: req.File, Code: req.Code},
		env.options(func(used time.Duration) error {
			if computed += used; computed > limits.Timeout {
				return errComputed
			}
			return nil
		}))
	stop()
	late := ""
	switch {
	case errors.Is(err, errComputed):
		late = fmt.Sprintf("the program took more than %s to compile (sandbox.timeout)", limits.Timeout)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		late = fmt.Sprintf("the program was not compiled within %s, waiting included", limits.MaxWall)
	}
	if late != "" {
		return s.unstarted(ctx, req, failed(id, &run.Error{Kind: run.KindTimeout, Message: late}))
	}
	if err != nil {
		if out, err = notCompiled(id, err); err != nil {
			return nil, err
		}
		return s.unstarted(ctx, req, out)
	}
	start, err := s.start(id, req, compiled)
	if err != nil {
		return nil, err
	}
	keep, err := s.opt.Store()
	if err != nil {
		return nil, err
	}
	writer, err := keep.Create(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	defer writer.Close(context.WithoutCancel(ctx))
	spec := s.spec(start, nil, env, compiled, req.Progress)
	spec.Journal, spec.Observe, spec.Computed = s.wrap(writer), req.Observe, computed
	return s.live(ctx, spec)
}

// errComputed gives up compiling a program that takes longer than it may compute.
var errComputed = errors.New("compiling takes too long")

// Continue executes a program under the id of the request: the outcome of a recorded run is returned again, a run whose
// process died is resumed, and an unknown id is a new run.
func (s *Service) Continue(ctx context.Context, req Request) (*run.Outcome, error) {
	records, err := s.Journal(ctx, req.ID)
	if errors.Is(err, journal.ErrNotFound) {
		return s.Execute(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	out, err := run.Recorded(records)
	if out != nil && req.Observe != nil {
		run.Observe(records, req.Observe)
	}
	if out != nil || err != nil {
		return out, err
	}
	return s.Resume(ctx, req.ID, req.Observe)
}

// unstarted keeps the journal of a program that could not be compiled: its text, and what is wrong with it.
func (s *Service) unstarted(ctx context.Context, req Request, out *run.Outcome) (*run.Outcome, error) {
	start, err := s.start(out.RunID, req, nil)
	if err != nil {
		return nil, err
	}
	keep, err := s.opt.Store()
	if err != nil {
		return nil, err
	}
	writer, err := keep.Create(ctx, out.RunID)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	end := &journal.End{Status: out.Status, Time: s.opt.Now().UnixMicro()}
	if end.Error, err = json.Marshal(out.Error); err != nil {
		return nil, fmt.Errorf("encode the error: %w", err)
	}
	wrapped := s.wrap(writer)
	wrapped.Append(journal.Record{Start: &start})
	wrapped.Append(journal.Record{End: end})
	if err := errors.Join(wrapped.Commit(ctx), writer.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	s.opt.Metrics.RunStarted()
	s.opt.Metrics.RunEnded(out)
	return out, nil
}

// execute runs a spec in the pool.
func (s *Service) execute(ctx context.Context, spec run.Spec) (*run.Outcome, error) {
	pool, err := s.opt.Pool()
	if err != nil {
		return nil, err
	}
	spec.Runners = pool
	return run.Execute(ctx, spec)
}

// live is execute for a run that is no replay: it is counted, traced and audited.
func (s *Service) live(ctx context.Context, spec run.Spec) (*run.Outcome, error) {
	ctx = telemetry.WithUser(telemetry.WithIDs(ctx, "", spec.Start.Run), spec.Start.User, spec.Start.Session)
	ctx, end := telemetry.StartRun(ctx, spec.Start.Run)
	s.opt.Metrics.RunStarted()
	out, err := s.execute(ctx, spec)
	s.opt.Metrics.RunEnded(out)
	end(out)
	if out != nil {
		s.opt.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.CodeExecution, Severity: telemetry.Low,
			Details: map[string]any{"run": out.RunID, "status": out.Status, "calls": out.Calls},
		})
	}
	return out, err
}

// start makes the record that a run is a function of; compiled is nil for a program that could not be.
func (s *Service) start(id string, req Request, compiled *program.Compiled) (journal.Start, error) {
	pool, err := s.opt.Pool()
	if err != nil {
		return journal.Start{}, err
	}
	var text json.RawMessage
	var positions string
	if compiled != nil {
		if text, err = json.Marshal(compiled.Program); err != nil {
			return journal.Start{}, fmt.Errorf("encode the program: %w", err)
		}
		positions = compiled.Map.String()
	}
	limits := s.limits(req.Timeout)
	encoded, err := json.Marshal(limits)
	if err != nil {
		return journal.Start{}, fmt.Errorf("encode the limits: %w", err)
	}
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	info := pool.Info()
	return journal.Start{
		Run: id, User: req.User, Session: req.Session, File: req.File, Source: req.Code, Program: text,
		Map: positions, Seed: hex.EncodeToString(seed[:]), Time: s.opt.Now().UnixMicro(),
		Tier: info.Tier, Engine: info.Engine, Prelude: info.Prelude, Limits: encoded, Env: s.opt.Env,
	}, nil
}

// limits are the configured ones with the timeout of a request; 0 is the configured timeout.
func (s *Service) limits(timeout time.Duration) run.Limits {
	limits := s.opt.Limits
	if timeout > 0 {
		limits.Timeout = timeout
	}
	return limits
}

// spec is a run with its gate. records are those of a run that is replayed or resumed.
func (s *Service) spec(
	start journal.Start, records []journal.Record, env *environment, compiled *program.Compiled,
	progress func(call int, p mcpclient.Progress),
) run.Spec {
	var limits run.Limits
	if len(start.Limits) > 0 {
		json.Unmarshal(start.Limits, &limits) // what start wrote; else the defaults
	}
	locate := &locator{compiled: compiled}
	locate.recall(records)
	return run.Spec{
		Start: start, Records: records, Limits: limits, Owner: start.User, Locate: locate.locate, Now: s.opt.Now,
		Privacy: env.privacy,
		Gate: s.opt.Gate.Open(gate.Scope{
			Run: start.Run, User: start.User, Session: start.Session, MaxCalls: limits.MaxCalls, MaxValue: limits.MaxValue,
			Files: env.space, Privacy: env.privacy, Recorded: records, Progress: progress,
			Modules: func(ctx context.Context, specifier, from string) (*program.Loaded, error) {
				loaded, err := program.CompileModule(ctx, specifier, from, env.options(func(used time.Duration) error {
					return run.Charge(ctx, used)
				}))
				if err == nil {
					locate.add(loaded.Map)
				}
				return loaded, err
			},
		}),
	}
}

// notCompiled is the outcome of a program with a syntax error.
func notCompiled(id string, err error) (*run.Outcome, error) {
	var wrong *program.Error
	if !errors.As(err, &wrong) {
		return nil, err
	}
	return failed(id, &run.Error{
		Kind: run.KindSyntax, Name: "SyntaxError", Message: wrong.Message, File: wrong.File, Line: wrong.Line,
		Column: wrong.Column, Source: wrong.SourceLine, Hint: wrong.Hint,
	}), nil
}

// failed is the outcome of a run that ended before it began.
func failed(id string, e *run.Error) *run.Outcome {
	return &run.Outcome{
		RunID: id, Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{}, Sandbox: "wasm", Error: e,
	}
}
