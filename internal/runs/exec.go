package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
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
	ID   string // id of the run; if empty, a new one is made
	Code string
	File string // file name for messages
	// Local are the files beside the program, which it may import by relative paths; nil if there are none.
	Local fs.FS
	User  string // "local" when empty
	Task  string // task of the run; may be empty
	// Principal is the principal that asks for the run.
	Principal string
	// Roles are the roles of the principal, for policy; nil if they are not known.
	Roles   []auth.Role
	Session string // session whose /workspace the run uses; if empty, the run has a temporary workspace
	Sandbox string // tier that the program runs in; empty for the configured one
	Timeout time.Duration
	Env     map[string]string // variables of the program in addition to the configured ones
	Input   *Input            // input of the program; may be nil
	// Written, if not nil, receives the files of the workspace that were written during the run, before the workspace of a run without a session is
	// removed.
	Written func([]files.Entry)
	// Said are texts of the user, such as the task; Input is not among them. In these texts, tokens of the session stand for personal data.
	Said    []string
	Asked   string    // text of the task, with tokens in place of personal data; empty for a run without a task
	Slot    *run.Slot // slot that the run of a task has got; nil for any other run
	Observe func(run.Event)
	Stored  func() // called once others can find the run in the store; may be nil
	// Progress, if not nil, receives what servers report about calls under way, from several goroutines.
	Progress func(call int, p mcpclient.Progress)

	warnings []string // warnings about the program
	only     string   // function that the program of CallOf calls; empty for any other program
}

// Execute compiles and executes a program and records its journal. For a program that does not compile it returns an outcome, not an error.
func (s *Service) Execute(ctx context.Context, req Request) (out *run.Outcome, err error) {
	req.User = cmp.Or(req.User, DefaultUser)
	if err := checkOnly(req); err != nil {
		return nil, err
	}
	if req.Sandbox, err = s.tierFor(req.User, req.Roles, req.Sandbox); err != nil {
		return nil, err
	}
	// The sandbox and the store of a first run open while its program is compiled.
	s.opening.Go(func() { s.opt.Pool(req.Sandbox) })
	s.opening.Go(func() { s.opt.Store() })
	id := cmp.Or(req.ID, id.New("run"))
	env, err := s.open(req.User, req.Session, id)
	if err != nil {
		return nil, err
	}
	began := s.opt.Now()
	defer func() {
		if over(out, err) && req.Written != nil {
			req.Written(env.written(ctx, began))
		}
		env.close(over(out, err))
	}()
	env.local = req.Local
	if err := env.take(ctx, req.Input); err != nil {
		env.close(true) // the run never begins
		return nil, err
	}
	spec, writer, out, err := s.prepare(ctx, id, env, req)
	if spec == nil {
		return out, err
	}
	defer writer.Close(context.WithoutCancel(ctx))
	return s.live(ctx, spec, env, req)
}

// tierFor calls Options.TierFor. If that is nil, tierFor returns the tier that was asked for.
func (s *Service) tierFor(user string, roles []auth.Role, asked string) (string, error) {
	if s.opt.TierFor == nil {
		return asked, nil
	}
	return s.opt.TierFor(user, roles, asked)
}

// prepare compiles a program and begins its journal. For a program that does not compile it returns an outcome and no spec.
func (s *Service) prepare(ctx context.Context, id string, env *environment, req Request) (spec *run.Spec, writer journal.Writer, out *run.Outcome, err error) {
	if req.Code, err = env.privacy.HideProgram(ctx, req.Code); err != nil {
		return nil, nil, nil, err
	}
	if req.Env, err = s.env(ctx, env.privacy, req.Env); err != nil {
		return nil, nil, nil, err
	}
	made, err := s.compile(ctx, env, program.Source{Name: req.File, Code: req.Code}, s.limits(req))
	if err != nil {
		return nil, nil, nil, err
	}
	for _, m := range made.mistakes {
		req.warnings = append(req.warnings, fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message))
	}
	if made.failure != nil {
		out = failed(id, made.failure)
		out.Warnings = req.warnings
		out, err = s.unstarted(ctx, req, out)
		return nil, nil, out, err
	}
	compiled := made.compiled
	start, writer, err := s.begin(ctx, id, req, compiled)
	if err != nil {
		return nil, nil, nil, err
	}
	start.Input = env.given
	for kind := range env.privacy.Tokens([]byte(req.Code)) {
		if start.Tokens == nil {
			start.Tokens = map[string]string{}
		}
		start.Tokens[kind] = "the program"
	}
	spec = s.spec(start, nil, env, compiled, req)
	spec.Journal, spec.Observe, spec.Stored, spec.Computed, spec.Slot = s.wrap(writer), req.Observe, req.Stored, made.computed, req.Slot
	spec.Only = onlyCall(req.only, start.Env)
	s.waitFor(spec, req)
	return spec, writer, nil, nil
}

// compilation is a program that was compiled and checked.
type compilation struct {
	compiled *program.Compiled
	computed time.Duration
	mistakes []run.Error // tools, arguments and fields that the program uses and that do not exist; see Service.check
	failure  *run.Error  // error with which a run of the program ends before it begins; nil if the program can run
}

// compile compiles a program and checks it, within the limits of a run. It returns mistakes of the program in c, and errors with any other cause
// as err.
func (s *Service) compile(ctx context.Context, env *environment, src program.Source, limits run.Limits) (c compilation, err error) {
	compiling, stop := context.WithTimeout(ctx, limits.MaxWall)
	defer stop()
	options := env.options(func(used time.Duration) error {
		if c.computed += used; c.computed > limits.Timeout {
			return errComputed
		}
		return nil
	})
	options.ReadUses = s.opt.Check != CheckOff
	c.compiled, err = program.Compile(compiling, src, options)
	if err == nil {
		c.mistakes, err = s.check(compiling, env, c.compiled)
	}
	switch {
	case err == nil && s.opt.Check == CheckRefuse && len(c.mistakes) > 0:
		c.failure, c.mistakes = &c.mistakes[0], c.mistakes[1:]
		c.failure.Hint = "nothing was run; correct the program and run it again"
	case err == nil:
	case errors.Is(err, errComputed):
		c.failure = &run.Error{Kind: frame.KindTimeout, Message: fmt.Sprintf("the program took more than %s to compile (sandbox.timeout)", limits.Timeout)}
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		c.failure = &run.Error{Kind: frame.KindTimeout, Message: fmt.Sprintf("the program was not compiled within %s, waiting included", limits.MaxWall)}
	default:
		c.failure, err = notCompiled(err)
		return c, err
	}
	return c, nil
}

// over reports whether a run has ended and so cannot be resumed.
func over(out *run.Outcome, err error) bool { return err == nil && out.Status != run.WaitingApproval }

// errComputed is the error of a program whose compilation takes longer than the program may compute.
var errComputed = errors.New("compiling takes too long")

// Continue executes a program under the id of the request. If the run with this id has ended, Continue returns its outcome. If the process of the
// run died, Continue resumes the run. For an unknown id, it executes a new run.
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
	return s.resume(ctx, req)
}

// unstarted writes the journal of a program that could not be compiled, with its source and the error, and completes its outcome.
func (s *Service) unstarted(ctx context.Context, req Request, out *run.Outcome) (*run.Outcome, error) {
	start, writer, err := s.begin(ctx, out.RunID, req, nil)
	if err != nil {
		return nil, err
	}
	out.Sandbox = start.Tier
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
func (s *Service) execute(ctx context.Context, spec *run.Spec) (*run.Outcome, error) {
	pool, err := s.opt.Pool(spec.Start.Tier)
	if err != nil {
		return nil, err
	}
	spec.Runners = pool
	out, err := run.Execute(ctx, spec)
	if g, ok := spec.Gate.(*gate.Run); ok {
		g.Close(over(out, err))
	}
	return out, err
}

// texts returns the texts that the author of a program, or a client, wrote for a run.
func texts(start journal.Start) []string {
	all := []string{start.Source}
	for _, value := range start.Env {
		all = append(all, value)
	}
	return all
}

// live executes a run that is not a replay, and counts, traces and audits it.
func (s *Service) live(ctx context.Context, spec *run.Spec, env *environment, req Request) (*run.Outcome, error) {
	ctx = telemetry.WithUser(telemetry.WithIDs(ctx, "", spec.Start.Run), spec.Start.User, spec.Start.Session)
	ctx, end := telemetry.StartRun(ctx, spec.Start.Run)
	s.opt.Metrics.RunStarted()
	calls, code := shape{}, spec.Start.Source // the run drops it
	if observe := spec.Observe; req.Task != "" {
		spec.Observe = func(e run.Event) {
			calls.add(e)
			if observe != nil {
				observe(e)
			}
		}
	}
	out, err := s.execute(ctx, spec)
	s.opt.Metrics.RunEnded(out)
	end(out)
	if out != nil {
		s.opt.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.CodeExecution, Severity: telemetry.Low,
			Details: map[string]any{"run": out.RunID, "status": out.Status, "calls": out.Calls},
		})
		s.used(context.WithoutCancel(ctx), out, env, req, calls.of(code))
	}
	return out, err
}

// used records the skills that an ended run has used, or else, for a task, the key of its program. It logs a failure, which is none of the run.
func (s *Service) used(ctx context.Context, out *run.Outcome, env *environment, req Request, key string) {
	if out.Status != run.Succeeded && out.Status != run.Failed {
		return
	}
	names := env.skillsUsed(ctx)
	saved, err := s.opt.Skills()
	switch {
	case err != nil:
	case len(names) > 0:
		err = saved.Use(ctx, env.user, names, out.Status == run.Succeeded, req.Asked)
	case key != "" && out.Status == run.Succeeded:
		_, err = stored(s, func(store Store) (struct{}, error) {
			return struct{}{}, store.KeepProgram(ctx, env.user, key, req.Task, out.RunID)
		})
	}
	if err != nil {
		s.opt.Logger.WarnContext(ctx, "what a run has used is not recorded", "run", out.RunID, "error", err)
	}
}

// begin creates the start record and the journal of a run; compiled is nil for a program that could not be compiled.
func (s *Service) begin(ctx context.Context, id string, req Request, compiled *program.Compiled) (start journal.Start, w journal.Writer, err error) {
	pool, err := s.opt.Pool(req.Sandbox)
	if err != nil {
		return start, nil, err
	}
	info := pool.Info()
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	start = journal.Start{
		Run: id, User: req.User, Session: req.Session, Principal: req.Principal, File: req.File, Source: req.Code, Seed: hex.EncodeToString(seed[:]),
		Time: s.opt.Now().UnixMicro(), Tier: info.Tier, Engine: info.Engine, Prelude: info.Prelude, Env: req.Env, Warnings: req.warnings,
	}
	for _, role := range req.Roles {
		start.Roles = append(start.Roles, string(role))
	}
	if compiled != nil {
		start.Map = compiled.Map.String()
		if start.Program, err = json.Marshal(compiled.Program); err != nil {
			return start, nil, fmt.Errorf("encode the program: %w", err)
		}
	}
	if start.Limits, err = json.Marshal(s.limits(req)); err != nil {
		return start, nil, fmt.Errorf("encode the limits: %w", err)
	}
	w, err = stored(s, func(store Store) (journal.Writer, error) { return store.Create(ctx, id) })
	if err != nil {
		return start, nil, fmt.Errorf("start the journal: %w", err)
	}
	return start, w, nil
}

// limits returns the limits for the user and the roles of a request. The timeout of the request, if it has one, replaces the timeout in the
// limits. Requests of tasks have no timeout, and Create refuses a timeout above the limit.
func (s *Service) limits(req Request) run.Limits {
	limits := s.opt.Limits
	if s.opt.LimitsFor != nil {
		limits = s.opt.LimitsFor(cmp.Or(req.User, DefaultUser), req.Roles)
	}
	if req.Timeout > 0 {
		limits.Timeout = req.Timeout
	}
	return limits
}

// spec returns the specification of a request's run, with its gate. records are the journal of a run that is replayed or resumed.
func (s *Service) spec(
	start journal.Start, records []journal.Record, env *environment, compiled *program.Compiled,
	req Request,
) *run.Spec {
	for _, m := range compiled.Program.Modules {
		env.loaded.Store(m.ID, true)
	}
	limits := s.opt.Limits
	json.Unmarshal(start.Limits, &limits) // begin wrote the limits; an early record has none
	locate := &locator{compiled: compiled}
	if len(records) == 0 { // a replay or a resumed run gives no advice from the catalog of today
		locate.advise = func(compiled *program.Compiled, e *frame.Error, at program.Position) string {
			return s.advise(env, compiled, e, at)
		}
	}
	locate.recall(records)
	return &run.Spec{
		Start: start, Records: records, Limits: limits, Owner: start.User, Locate: locate.locate, Now: s.opt.Now,
		Privacy: env.privacy, Turn: s.turns.Join(start.User), Args: s.args, Detach: s.detach(start.Run, env, locate), Input: env.recall,
		Gate: s.opt.Gate.Open(gate.Scope{
			Run: start.Run, User: start.User, Roles: req.Roles, Session: start.Session, Tier: start.Tier, Task: req.Task, MaxCalls: limits.MaxCalls, MaxValue: limits.MaxValue,
			Said: req.Said, Code: texts(start), Files: env.space, Privacy: env.privacy, Input: env.input, InputFrom: env.inputFrom(), Recorded: records, Progress: req.Progress, Decided: s.decisions(start.Run, req.Task),
			Modules: func(ctx context.Context, specifier, from string, charge func(time.Duration) error) (*program.Loaded, error) {
				loaded, err := program.CompileModule(ctx, specifier, from, env.options(charge))
				if err == nil {
					locate.add(loaded.Map)
				}
				return loaded, err
			},
			Skill: func(ctx context.Context, tool *catalog.Tool, charge func(time.Duration) error) (*program.Loaded, bool, error) {
				loaded, wrapped, err := env.skill(ctx, tool, charge)
				if err == nil {
					locate.add(loaded.Map)
				}
				return loaded, wrapped, err
			},
		}),
	}
}

// detach returns the settings with which a run gives up its runner, or nil if it never does.
func (s *Service) detach(runID string, env *environment, locate *locator) *run.Detach {
	if s.opt.DetachAfter == 0 {
		return nil
	}
	return &run.Detach{
		After: s.opt.DetachAfter, Places: s.detached,
		Forget: func() {
			locate.use(nil)
			env.workspace.Pause()
		},
		Recall: func(ctx context.Context) ([]journal.Record, error) {
			records, err := s.Journal(ctx, runID)
			if err != nil || len(records) == 0 || records[0].Start == nil {
				return records, err
			}
			compiled, err := recorded(*records[0].Start)
			if err == nil {
				locate.use(compiled)
				locate.recall(records)
			}
			return records, err
		},
	}
}

// notCompiled converts the syntax error of a program to the error with which its run ends. It returns any other error as it is.
func notCompiled(err error) (*run.Error, error) {
	var wrong *program.Error
	if !errors.As(err, &wrong) {
		return nil, err
	}
	return &run.Error{
		Kind: frame.KindSyntax, Name: "SyntaxError", Message: wrong.Message, File: wrong.File, Line: wrong.Line,
		Column: wrong.Column, Source: wrong.SourceLine, Hint: wrong.Hint,
	}, nil
}

// failed returns the outcome of a run that ended before it began.
func failed(id string, e *run.Error) *run.Outcome {
	return &run.Outcome{RunID: id, Status: run.Failed, Output: json.RawMessage("null"), Logs: []run.Log{}, Error: e}
}
