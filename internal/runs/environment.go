package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/skills"
)

// environment holds the files and modules of a run.
type environment struct {
	s         *Service
	user      string
	space     *files.Space
	skills    *files.Dir
	workspace *files.Dir
	privacy   pii.Session
	servers   map[string]frame.Module // servers of a recorded program, see offline; nil if the user's servers may be contacted
	remove    func()                  // removes the workspace of a run without a session
	local     fs.FS                   // the files beside the program; nil if there are none
	runID     string

	given  *journal.Input // input of the run; nil if it has none
	input  *input.Reader
	file   files.File // file of the input
	loaded sync.Map   // paths of modules and of promoted skills below /skills that were loaded, as keys
	// copied reports that a copy of the input may exist and has to be removed.
	copied bool
}

// open opens the directories of a user and a session. A run without a session gets its own workspace.
func (s *Service) open(user, session, runID string) (*environment, error) {
	saved, err := s.opt.Skills()
	if err != nil {
		return nil, err
	}
	work, err := s.opt.Workspace()
	if err != nil {
		return nil, err
	}
	e := &environment{s: s, user: user, runID: runID, remove: func() {}}
	if session == "" {
		session = runID
		e.remove = func() { work.Remove(user, session) }
	}
	if e.skills, err = saved.Dir(user); err != nil {
		return nil, err
	}
	if e.workspace, err = work.Open(user, session); err != nil {
		e.skills.Close()
		return nil, err
	}
	e.privacy = s.opt.Privacy.In(user, session)
	e.space = files.NewSpace(e.skills, e.workspace, &declarations{s, user})
	e.space.Shared = saved.Shared(user)
	e.space.Keep = func(ctx context.Context, old, data []byte) ([]byte, error) {
		if !utf8.Valid(data) {
			return data, nil
		}
		text, err := e.privacy.RestoreKept(ctx, string(old), string(data))
		if err != nil {
			return nil, &files.Error{Code: files.Invalid, Detail: err.Error()}
		}
		return []byte(text), nil
	}
	return e, nil
}

// close releases the directories. If the run has ended, it cannot be resumed: then close removes the copy of the run's input and, if the run has
// no session, the workspace.
func (e *environment) close(ended bool) {
	e.workspace.Close()
	e.skills.Close()
	if e.file != nil {
		e.file.Close()
	}
	if ended {
		e.remove()
		e.removeInput()
	}
}

// clockGrain is the maximum time by which the times of files lag behind the clock.
const clockGrain = 20 * time.Millisecond

// written returns the files of the workspace that were written since a time.
func (e *environment) written(ctx context.Context, since time.Time) []files.Entry {
	all, err := e.workspace.ReadDir(context.WithoutCancel(ctx), ".", true)
	if err != nil {
		return nil // too many to list
	}
	return slices.DeleteFunc(all, func(f files.Entry) bool { return f.ModTime.Before(since.Add(-clockGrain)) })
}

// options returns the options for compiling a program, with the modules that it may import. charge receives the time that compiling them took.
func (e *environment) options(charge func(time.Duration) error) program.Options {
	return program.Options{
		Resolver: e, Local: e.local != nil, Packages: e.s.opt.Packages, Prelude: e.s.opt.Prelude, Cache: e.s.opt.Modules, Compiler: e.s.opt.Compiler,
		Owner: e.user, Charge: charge,
	}
}

var _ program.Resolver = (*environment)(nil)

// Module implements program.Resolver.
func (e *environment) Module(ctx context.Context, id string) ([]byte, error) {
	if strings.HasPrefix(id, program.LocalRoot) {
		return e.localModule(ctx, id)
	}
	return e.module(ctx, id, e.read)
}

// module returns the text of a module that read reads, with personal data hidden.
func (e *environment) module(ctx context.Context, id string, read func(ctx context.Context, id string) ([]byte, error)) ([]byte, error) {
	by := e.space.Hand(id)
	text, err := read(ctx, id)
	if err != nil {
		return nil, err
	}
	e.loaded.Store(id, true)
	if e.space.Hand(id) != by { // the file has changed meanwhile
		by = files.Hand{}
	}
	hide, rest := e.privacy.HideModule, pii.OfPrograms(e.space.Tree(id))
	if path.Ext(id) == ".json" {
		hide = e.privacy.HideSections
	}
	hidden, err := hide(ctx, string(text), by.Given, pii.FromFile, rest)
	return []byte(hidden), err
}

// skill compiles the promoted skill that is a tool. Its files are those of the checked content, also if they are written meanwhile. wrapped reports that the
// skill's input is the member input of the tool's arguments.
func (e *environment) skill(ctx context.Context, tool *catalog.Tool, charge func(time.Duration) error) (code *program.Loaded, wrapped bool, err error) {
	saved, err := e.s.opt.Skills()
	if err != nil {
		return nil, false, err
	}
	f, err := saved.Function(ctx, e.user, tool)
	if err != nil {
		return nil, false, err
	}
	options := e.options(charge)
	options.Resolver = skillFiles{e, f}
	code, err = program.CompileModule(ctx, f.Path, "", options)
	_, wrapped = f.Arguments()
	return code, wrapped, err
}

// skillsUsed returns the names of the skills of which something was loaded, as they are in the history, sorted.
func (e *environment) skillsUsed(ctx context.Context) []string {
	var names []string
	for key := range e.loaded.Range {
		id := key.(string)
		if !strings.HasPrefix(id, "/skills/") {
			continue
		}
		skill := id
		for dir := path.Dir(id); dir != "/skills"; dir = path.Dir(dir) {
			if _, err := e.space.ReadFile(ctx, dir+"/SKILL.md"); err == nil {
				skill = dir
			}
		}
		names = append(names, strings.TrimPrefix(skill, "/skills/"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// skillFiles resolves the modules of a promoted skill.
type skillFiles struct {
	*environment
	f *skills.Function
}

// Module implements program.Resolver.
func (s skillFiles) Module(ctx context.Context, id string) ([]byte, error) {
	if id != s.f.Path && !strings.HasPrefix(id, s.f.Path+"/") {
		return s.environment.Module(ctx, id)
	}
	return s.module(ctx, id, func(context.Context, string) ([]byte, error) { return s.f.Read(id) })
}

// read reads the text of a module.
func (e *environment) read(ctx context.Context, id string) ([]byte, error) {
	text, err := e.space.ReadFile(ctx, id)
	var failed *files.Error
	if errors.As(err, &failed) && failed.Code == files.IsDirectory {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return text, err
}

// localModule reads a file beside the program. Personal data in the file is hidden in the same way as in the program.
func (e *environment) localModule(ctx context.Context, id string) ([]byte, error) {
	text, err := program.LocalFile(e.local, id)
	if err != nil {
		return nil, err
	}
	if path.Ext(id) == ".json" {
		return e.privacy.HideJSON(ctx, pii.FromInput, text)
	}
	hidden, err := e.privacy.HideProgram(ctx, string(text))
	return []byte(hidden), err
}

// offline makes Server look up servers in the recorded program and the catalog only, without asking the servers.
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
	if err != nil {
		module, err = e.s.opt.Catalog.Of(ctx, e.user).Module(name)
	}
	if err != nil && e.servers == nil {
		e.s.opt.EnsureTools(ctx, e.user)
		module, err = e.s.opt.Catalog.Module(name)
	}
	if err == nil {
		module.Instructions, err = e.privacy.Hide(ctx, pii.Origin(module.Server), module.Instructions)
	}
	return module, err
}
