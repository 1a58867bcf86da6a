package harness

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
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

// DefaultUser owns what is done without a user.
const DefaultUser = "local"

// Exec compiles and runs a program and keeps its journal. A program that does not compile is an outcome too.
func (h *Harness) Exec(ctx context.Context, req Request) (out *run.Outcome, err error) {
	// A first run waits for the sandbox and the store: they open while the program is compiled.
	h.opening.Go(func() { h.pool() })
	h.opening.Go(func() { h.store() })
	if req.User == "" {
		req.User = DefaultUser
	}
	id := cmp.Or(req.ID, id.New("run"))
	place, err := h.place(req.User, req.Session, id)
	if err != nil {
		return nil, err
	}
	defer func() { place.close(err == nil) }()
	if req.Code, err = place.privacy.Hide(ctx, req.Code); err != nil {
		return nil, err
	}
	limit := h.limits(req.Timeout).Timeout
	compiling, stop := context.WithTimeout(ctx, limit)
	compiled, err := program.Compile(compiling, program.Source{Name: req.File, Code: req.Code}, place.options())
	stop()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return h.unstarted(ctx, req, failed(id, &run.Error{
			Kind: run.KindTimeout, Message: fmt.Sprintf("the program took more than %s to compile (sandbox.timeout)", limit),
		}))
	}
	if err != nil {
		if out, err = notCompiled(id, err); err != nil {
			return nil, err
		}
		return h.unstarted(ctx, req, out)
	}
	start, err := h.start(id, req, compiled)
	if err != nil {
		return nil, err
	}
	keep, err := h.store()
	if err != nil {
		return nil, err
	}
	writer, err := keep.Create(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	defer writer.Close(context.WithoutCancel(ctx))
	spec := h.spec(start, nil, place, compiled, req.Progress)
	spec.Journal, spec.Observe = h.wrap(writer), req.Observe
	return h.live(ctx, spec)
}

// Execute runs a program under the id of the request, which the caller has recorded before: a run of this id that has
// ended is told of again, one whose process died goes on, and only one that is not known is begun.
func (h *Harness) Execute(ctx context.Context, req Request) (*run.Outcome, error) {
	records, err := h.Journal(ctx, req.ID)
	if errors.Is(err, journal.ErrNotFound) {
		return h.Exec(ctx, req)
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
	return h.Resume(ctx, req.ID, req.Observe)
}

// unstarted keeps the journal of a program that could not be compiled: its text, and what is wrong with it.
func (h *Harness) unstarted(ctx context.Context, req Request, out *run.Outcome) (*run.Outcome, error) {
	start, err := h.start(out.RunID, req, nil)
	if err != nil {
		return nil, err
	}
	keep, err := h.store()
	if err != nil {
		return nil, err
	}
	writer, err := keep.Create(ctx, out.RunID)
	if err != nil {
		return nil, fmt.Errorf("start the journal: %w", err)
	}
	end := &journal.End{Status: out.Status, Time: h.out.Now().UnixMicro()}
	if end.Error, err = json.Marshal(out.Error); err != nil {
		return nil, fmt.Errorf("encode the error: %w", err)
	}
	wrapped := h.wrap(writer)
	wrapped.Append(journal.Record{Start: &start})
	wrapped.Append(journal.Record{End: end})
	if err := errors.Join(wrapped.Commit(ctx), writer.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	h.out.Metrics.RunStarted()
	h.out.Metrics.RunEnded(out)
	return out, nil
}

// execute runs a spec in the pool.
func (h *Harness) execute(ctx context.Context, spec run.Spec) (*run.Outcome, error) {
	pool, err := h.pool()
	if err != nil {
		return nil, err
	}
	spec.Runners = pool
	return run.Execute(ctx, spec)
}

// live is execute for a run that is no replay: it is counted, traced and audited.
func (h *Harness) live(ctx context.Context, spec run.Spec) (*run.Outcome, error) {
	ctx = telemetry.WithUser(telemetry.WithIDs(ctx, "", spec.Start.Run), spec.Start.User, spec.Start.Session)
	ctx, end := telemetry.StartRun(ctx, spec.Start.Run)
	spec.Gate = numbered{spec.Gate}
	h.out.Metrics.RunStarted()
	out, err := h.execute(ctx, spec)
	h.out.Metrics.RunEnded(out)
	end(out)
	if out != nil {
		h.out.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.CodeExecution, Severity: telemetry.Low,
			Details: map[string]any{"run": out.RunID, "status": out.Status, "calls": out.Calls},
		})
	}
	return out, err
}

// start makes the record that a run is a function of; compiled is nil for a program that could not be.
func (h *Harness) start(id string, req Request, compiled *program.Compiled) (journal.Start, error) {
	pool, err := h.pool()
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
	limits := h.limits(req.Timeout)
	encoded, err := json.Marshal(limits)
	if err != nil {
		return journal.Start{}, fmt.Errorf("encode the limits: %w", err)
	}
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	info := pool.Info()
	return journal.Start{
		Run: id, User: req.User, Session: req.Session, File: req.File, Source: req.Code, Program: text,
		Map: positions, Seed: hex.EncodeToString(seed[:]), Time: h.out.Now().UnixMicro(),
		Tier: info.Tier, Engine: info.Engine, Prelude: info.Prelude, Limits: encoded, Env: h.cfg.Sandbox.Env,
	}, nil
}

// Timeout is how long a program may compute, sandbox.timeout, unless its request says otherwise.
func (h *Harness) Timeout() time.Duration { return h.cfg.Sandbox.Timeout }

// limits are those of the configuration.
func (h *Harness) limits(timeout time.Duration) run.Limits {
	c := h.cfg.Sandbox
	if timeout <= 0 {
		timeout = c.Timeout
	}
	return run.Limits{
		Timeout: timeout, MaxWall: c.MaxWall, Memory: int64(c.Memory), MaxOutput: int(c.MaxOutput), MaxLogLines: c.MaxLogLines,
		MaxCalls: c.MaxCalls, MaxHostCalls: c.MaxHostCalls, MaxInFlight: c.MaxInFlight, MaxValue: int(c.MaxValue),
	}
}

// spec is a run with its gate. records are those of a run that is replayed or resumed.
func (h *Harness) spec(
	start journal.Start, records []journal.Record, place *place, compiled *program.Compiled,
	progress func(call int, p mcpclient.Progress),
) run.Spec {
	var limits run.Limits
	if len(start.Limits) > 0 {
		json.Unmarshal(start.Limits, &limits) // what start wrote; else the defaults
	}
	locate := &locator{compiled: compiled}
	locate.recall(records)
	return run.Spec{
		Start: start, Records: records, Limits: limits, Owner: start.User, Locate: locate.locate, Now: h.out.Now,
		Privacy: place.privacy,
		Gate: h.gate.Open(gate.Scope{
			Run: start.Run, User: start.User, Session: start.Session, MaxCalls: limits.MaxCalls, MaxValue: limits.MaxValue,
			Files: place.space, Privacy: place.privacy, Recorded: records, Progress: progress,
			Modules: func(ctx context.Context, specifier, from string) (*program.Loaded, error) {
				loaded, err := program.CompileModule(ctx, specifier, from, place.options())
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

// locator explains errors by the code as written. Modules loaded while the program runs add their maps.
type locator struct {
	mu       sync.Mutex
	compiled *program.Compiled
}

func (l *locator) add(m *program.SourceMap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compiled.Map.Add(m)
}

// recall adds the maps of modules that a recorded run loaded while it ran.
func (l *locator) recall(records []journal.Record) {
	loads := map[int]bool{}
	for _, r := range records {
		switch {
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.Load:
			loads[r.Call.N] = true
		case r.Answer != nil && loads[r.Answer.N] && r.Answer.Value != nil:
			var loaded program.Loaded
			if json.Unmarshal(r.Answer.Value, &loaded) == nil && loaded.Map != nil { // else errors have no place, as before
				l.add(loaded.Map)
			}
		}
	}
}

func (l *locator) locate(e *frame.Error) *run.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.compiled.Locate(*e)
	if at.Line == 0 && strings.HasPrefix(e.Message, "output") {
		at = l.compiled.Result() // the value is at fault, not the code that made it
	}
	return &run.Error{
		Kind: e.Kind, Name: e.Name, Message: e.Message, File: at.File, Line: at.Line, Column: at.Column,
		Source: at.SourceLine, Stack: at.Stack, Tool: e.Tool, Data: e.Data,
		Hint: program.Hint(e.Kind, e.Name, e.Message, l.compiled.Source.Code),
	}
}

// place is what a run sees of files and modules.
type place struct {
	h         *Harness
	space     *files.Space
	skills    *files.Dir
	workspace *files.Dir
	privacy   pii.Session
	servers   map[string]frame.Module // of a recorded program, where no other can be asked for
	remove    func()                  // of a workspace that nobody keeps
}

// place opens the directories of a user and a session. A run without a session has one of its own.
func (h *Harness) place(user, session, runID string) (*place, error) {
	saved, err := h.skills()
	if err != nil {
		return nil, err
	}
	work, err := h.workspace()
	if err != nil {
		return nil, err
	}
	p := &place{h: h, remove: func() {}}
	if session == "" {
		session = runID
		p.remove = func() { work.Remove(user, session) }
	}
	if p.skills, err = saved.Dir(user); err != nil {
		return nil, err
	}
	if p.workspace, err = work.Dir(user, session); err != nil {
		p.skills.Close()
		return nil, err
	}
	p.privacy = pii.In(h.out.Privacy, user, session)
	p.space = files.NewSpace(p.skills, p.workspace, &declarations{h})
	return p, nil
}

// close releases the directories. The workspace of a run that has ended, and that no session keeps, is removed; one that
// has not ended can be resumed, and needs it.
func (p *place) close(ended bool) {
	p.workspace.Close()
	p.skills.Close()
	if ended {
		p.remove()
	}
}

// options are what a program of this place may import.
func (p *place) options() program.Options {
	return program.Options{
		Resolver: p, Packages: p.h.cfg.Sandbox.Packages, Prelude: p.h.prelude, Cache: p.h.modules, Compiler: p.h.compile,
	}
}

var _ program.Resolver = (*place)(nil)

// Module implements program.Resolver.
func (p *place) Module(ctx context.Context, id string) ([]byte, error) {
	text, err := p.space.ReadFile(ctx, id)
	var failed *files.Error
	if errors.As(err, &failed) && failed.Code == files.IsDirectory {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	hidden, err := p.privacy.Hide(ctx, string(text))
	return []byte(hidden), err
}

// offline makes the servers of a recorded program those that can be imported, besides what the catalog knows.
func (p *place) offline(recorded *frame.Program) {
	p.servers = map[string]frame.Module{}
	for _, m := range recorded.Modules {
		if m.Server != "" {
			p.servers[ident.Fold(m.Server)] = m
		}
	}
}

// Server implements program.Resolver.
func (p *place) Server(ctx context.Context, name string) (frame.Module, error) {
	if module, known := p.servers[ident.Fold(name)]; known {
		return module, nil
	}
	module, err := p.h.catalog.Module(name)
	if err != nil && p.servers == nil {
		p.h.servers.EnsureTools(ctx)
		module, err = p.h.catalog.Module(name)
	}
	if err == nil {
		module.Instructions, err = p.privacy.Hide(ctx, module.Instructions)
	}
	return module, err
}
