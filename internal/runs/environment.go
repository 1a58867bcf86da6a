package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
)

// environment is what a run sees of files and modules.
type environment struct {
	s         *Service
	user      string
	space     *files.Space
	skills    *files.Dir
	workspace *files.Dir
	privacy   pii.Session
	servers   map[string]frame.Module // of a recorded program, where no other can be asked for
	remove    func()                  // removes a workspace of no session
}

// open opens the directories of a user and a session. A run without a session has one of its own.
func (s *Service) open(user, session, runID string) (*environment, error) {
	saved, err := s.opt.Skills()
	if err != nil {
		return nil, err
	}
	work, err := s.opt.Workspace()
	if err != nil {
		return nil, err
	}
	e := &environment{s: s, user: user, remove: func() {}}
	if session == "" {
		session = runID
		e.remove = func() { work.Remove(user, session) }
	}
	if e.skills, err = saved.Dir(user); err != nil {
		return nil, err
	}
	if e.workspace, err = work.Dir(user, session); err != nil {
		e.skills.Close()
		return nil, err
	}
	e.privacy = pii.In(s.opt.Privacy, user, session)
	e.space = files.NewSpace(e.skills, e.workspace, &declarations{s})
	return e, nil
}

// close releases the directories. The workspace of a run that has ended, and that no session keeps, is removed; one that
// has not ended can be resumed, and needs it.
func (e *environment) close(ended bool) {
	e.workspace.Close()
	e.skills.Close()
	if ended {
		e.remove()
	}
}

// options are what a program may import here. charge takes the time that its compilations compute.
func (e *environment) options(charge func(time.Duration) error) program.Options {
	return program.Options{
		Resolver: e, Packages: e.s.opt.Packages, Prelude: e.s.opt.Prelude, Cache: e.s.opt.Modules, Compiler: e.s.opt.Compiler,
		Owner: e.user, Charge: charge,
	}
}

var _ program.Resolver = (*environment)(nil)

// Module implements program.Resolver.
func (e *environment) Module(ctx context.Context, id string) ([]byte, error) {
	text, err := e.space.ReadFile(ctx, id)
	var failed *files.Error
	if errors.As(err, &failed) && failed.Code == files.IsDirectory {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	hidden, err := e.privacy.Hide(ctx, string(text))
	return []byte(hidden), err
}

// offline makes the servers of a recorded program those that can be imported, besides what the catalog knows.
func (e *environment) offline(recorded *frame.Program) {
	e.servers = map[string]frame.Module{}
	for _, m := range recorded.Modules {
		if m.Server != "" {
			e.servers[ident.Fold(m.Server)] = m
		}
	}
}

// Server implements program.Resolver.
func (e *environment) Server(ctx context.Context, name string) (frame.Module, error) {
	if module, known := e.servers[ident.Fold(name)]; known {
		return module, nil
	}
	module, err := e.s.opt.Catalog.Module(name)
	if err != nil && e.servers == nil {
		e.s.opt.EnsureTools(ctx)
		module, err = e.s.opt.Catalog.Module(name)
	}
	if err == nil {
		module.Instructions, err = e.privacy.Hide(ctx, module.Instructions)
	}
	return module, err
}
