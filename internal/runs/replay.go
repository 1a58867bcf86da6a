package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
)

// Journal returns the records of a run.
func (s *Service) Journal(ctx context.Context, id string) ([]journal.Record, error) {
	return stored(s, func(store Store) ([]journal.Record, error) { return store.Read(ctx, id) })
}

// Limits of a page of a journal. A single value may be larger than pageBytes.
const (
	MaxPage   = 1000
	pageBytes = 1 << 20
)

// JournalPage returns the records of a run with numbers above after: at most limit, and fewer if they are large.
func (s *Service) JournalPage(ctx context.Context, id string, after int64, limit int) ([]journal.Record, error) {
	return stored(s, func(store Store) ([]journal.Record, error) {
		return store.ReadPage(ctx, id, after, min(limit, MaxPage), pageBytes)
	})
}

// Recorded returns a run's outcome, or nil while it has none, and its start record. It reads the journal in pages, and drops the values of calls.
func (s *Service) Recorded(ctx context.Context, id string) (*run.Outcome, *journal.Start, error) {
	var all []journal.Record
	for after := int64(0); ; after = all[len(all)-1].Seq {
		page, err := s.JournalPage(ctx, id, after, MaxPage)
		if err != nil {
			return nil, nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.Call != nil {
				r.Call.Args = nil
			}
			if r.Answer != nil {
				r.Answer.Value = nil
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 || all[0].Start == nil {
		return nil, nil, fmt.Errorf("run %q: %w", id, journal.ErrNotFound)
	}
	out, err := run.Recorded(all)
	return out, all[0].Start, err
}

// Replay configures how a recorded run is executed again.
type Replay struct {
	Code    string      // program to replay in place of the recorded one, to see where it diverges; empty for the recorded one
	Local   fs.FS       // the files beside Code, as in Request
	Tier    string      // tier of the sandbox; empty for the recorded one
	Force   bool        // replay even if another engine recorded the run
	Roles   []auth.Role // roles of the caller, for policy; nil if unknown
	Input   *Input      // input that the run had; nil if it had none, or if its input was a file of its workspace
	Observe func(run.Event)
	// Diverged is called when the replay diverges at a call; it may be nil. See run.Spec.
	Diverged func(*journal.DivergedError)
}

// Replay executes a recorded run again, offline. Every call is answered from the record; a difference ends the replay with an error of kind
// diverged.
func (s *Service) Replay(ctx context.Context, records []journal.Record, how Replay) (*run.Outcome, error) {
	if err := journal.Check(records); err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	start, code := *records[0].Start, how.Code
	if len(start.Program) == 0 && code == "" {
		return run.Recorded(records) // the program was not compiled
	}
	if how.Tier != "" && how.Tier != start.Tier {
		start.Tier = how.Tier
	} else {
		other, err := s.home(&start, how.Roles)
		if err != nil {
			return nil, err
		}
		if other == nil {
			other = s.sameEngine(start)
		}
		if other != nil && !how.Force {
			return nil, fmt.Errorf("%w: %w; use --force to try the %s tier of this version", ErrEngine, other, start.Tier)
		}
	}
	env, err := s.open(start.User, start.Session, start.Run)
	if err != nil {
		return nil, err
	}
	env.local = how.Local
	env.runID = id.New("run") // name of the replay's copy of the input
	defer env.removeInput()
	defer env.close(false) // a replay has no workspace of its own
	if err := env.takeAgain(ctx, start.Input, how.Input); err != nil {
		return nil, err
	}
	compiled, err := recorded(start)
	if err != nil {
		return nil, err
	}
	if code, err = env.privacy.HideProgram(ctx, code); err != nil {
		return nil, err
	}
	if code != "" {
		env.offline(&compiled.Program) // a replay contacts no server, not even for the list of its tools
		compiled, err = program.Compile(ctx, program.Source{Name: start.File, Code: code}, env.options(nil))
		if err != nil {
			wrong, err := notCompiled(err)
			if err != nil {
				return nil, err
			}
			out := failed(start.Run, wrong)
			out.Sandbox = start.Tier
			return out, nil
		}
		start.Source = code
		if start.Program, err = json.Marshal(compiled.Program); err != nil {
			return nil, fmt.Errorf("encode the program: %w", err)
		}
	}
	spec := s.spec(start, records, env, compiled, Request{})
	spec.Offline, spec.Observe, spec.Diverged, spec.Detach = true, how.Observe, how.Diverged, nil
	return s.execute(ctx, spec)
}

// Resume continues a run whose process died: it executes the run's program again. Calls with a recorded answer get that answer; the other calls are
// made. A write that was in flight is in doubt. After an upgrade the run may end as diverged, with its effects listed, but nothing worse. A run that
// waits for an approval stays as it is; the status of its outcome is run.WaitingApproval.
func (s *Service) Resume(ctx context.Context, id string, observe func(run.Event)) (*run.Outcome, error) {
	return s.resume(ctx, Request{ID: id, Observe: observe})
}

func (s *Service) resume(ctx context.Context, req Request) (out *run.Outcome, err error) {
	id := req.ID
	last, waiting, err := s.waits(ctx, id)
	if waiting {
		return s.Waiting(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	if last != nil {
		req.Task = last.Task
	}
	store, err := s.opt.Store()
	if err != nil {
		return nil, err
	}
	writer, records, err := store.Resume(ctx, id)
	if err != nil {
		return nil, err
	}
	defer writer.Close(context.WithoutCancel(ctx))
	if err := journal.Check(records); err != nil {
		return nil, fmt.Errorf("read the journal of %s: %w", id, err)
	}
	start := *records[0].Start
	var had []auth.Role
	for _, role := range start.Roles {
		had = append(had, auth.Role(role))
	}
	req.Principal = start.Principal
	if req.Roles, err = s.roles(ctx, start.Principal, had); err != nil {
		return nil, err
	}
	if _, err := s.home(&start, req.Roles); err != nil {
		return nil, err
	}
	env, err := s.open(start.User, start.Session, start.Run)
	if err != nil {
		return nil, err
	}
	defer func() { env.close(over(out, err)) }()
	if err := env.resumeInput(start.Input); err != nil {
		return nil, err
	}
	compiled, err := recorded(start)
	if err != nil {
		return nil, err
	}
	spec := s.spec(start, records, env, compiled, req)
	spec.Journal, spec.Observe, spec.Slot = s.wrap(writer), req.Observe, req.Slot
	if last != nil {
		spec.Resume, spec.Computed = last.Resume, last.Resume.Computed
	}
	s.waitFor(spec, req)
	return s.live(ctx, spec, env, req)
}

// Abandon ends a run as cancelled if its process died. A run that has ended, or that a live process executes, stays as it is.
func (s *Service) Abandon(ctx context.Context, id string) error {
	store, err := s.opt.Store()
	if err != nil {
		return err
	}
	writer, records, err := store.Resume(ctx, id)
	if errors.Is(err, journal.ErrEnded) || errors.Is(err, journal.ErrBusy) || errors.Is(err, journal.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	writer.Append(journal.Record{End: run.Abandoned(records, s.opt.Now())})
	if err := errors.Join(writer.Commit(ctx), writer.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if err := journal.Check(records); err != nil {
		return nil // the run's user is unknown, and so is its workspace; SweepWorkspaces removes the workspace
	}
	env, err := s.open(records[0].Start.User, records[0].Start.Session, id)
	if err != nil {
		return err
	}
	env.copied = records[0].Start.Input != nil
	env.close(true)
	return nil
}

// home replaces the tier in the start record of a run, if the tier does not exist any more or is weaker than the runs of the user now need. why is
// the reason for the replacement. A tier that exists but cannot be opened now is kept, because it may be available later.
func (s *Service) home(start *journal.Start, roles []auth.Role) (why, err error) {
	tier, err := s.tierFor(start.User, roles, start.Tier)
	if _, refused := errors.AsType[InvalidError](err); refused {
		why = err
		tier, err = s.tierFor(start.User, roles, "")
	}
	if err == nil {
		start.Tier = tier
	}
	return why, err
}

// sameEngine returns an error if another engine or guest runtime recorded a run.
func (s *Service) sameEngine(start journal.Start) error {
	pool, err := s.opt.Pool(start.Tier)
	if err != nil {
		return err
	}
	info := pool.Info()
	switch {
	case start.Engine != info.Engine:
		return errors.New("its version differs from this one's")
	case start.Prelude != info.Prelude:
		return errors.New("its guest runtime differs from this one's")
	}
	return nil
}

// recorded returns the compiled program of a start record.
func recorded(start journal.Start) (*program.Compiled, error) {
	compiled := &program.Compiled{Source: program.Source{Name: start.File, Code: start.Source}}
	if len(start.Program) == 0 {
		return compiled, nil
	}
	if err := json.Unmarshal(start.Program, &compiled.Program); err != nil {
		return nil, fmt.Errorf("read the recorded program: %w", err)
	}
	var err error
	if compiled.Map, err = program.ParseMap(start.Map); err != nil {
		return nil, fmt.Errorf("read the recorded program: %w", err)
	}
	return compiled, nil
}
