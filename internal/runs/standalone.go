package runs

import (
	"cmp"
	"context"

	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/program"
)

// Standalone compiles a program of a user and returns it as JavaScript that needs nothing of the harness, or else the list of what it needs; see
// [program.Standalone]. Files of the user's skills are read as they are, with the personal data in them.
func (s *Service) Standalone(ctx context.Context, user, code string) (plain string, needs []string, err error) {
	env, err := s.open(cmp.Or(user, DefaultUser), "", id.New("run"))
	if err != nil {
		return "", nil, err
	}
	defer env.close(true)
	options := env.options(nil)
	options.Resolver, options.Cache = revealed{env}, nil // the cache holds modules with tokens
	compiled, err := program.Compile(ctx, program.Source{Code: code}, options)
	if err != nil {
		return "", nil, err
	}
	plain, needs = program.Standalone(compiled.Program)
	return plain, needs, nil
}

// revealed resolves modules with the personal data in them.
type revealed struct{ *environment }

// Module implements program.Resolver.
func (r revealed) Module(ctx context.Context, id string) ([]byte, error) { return r.read(ctx, id) }

// StandaloneRun does the same as [Service.Standalone] for the program of a recorded run, as it was compiled then, with values in place of its tokens.
func (s *Service) StandaloneRun(ctx context.Context, start *journal.Start) (plain string, needs []string, err error) {
	compiled, err := recorded(*start)
	if err != nil {
		return "", nil, err
	}
	if plain, needs = program.Standalone(compiled.Program); len(needs) > 0 {
		return "", needs, nil
	}
	plain, err = s.opt.Privacy.In(cmp.Or(start.User, DefaultUser), cmp.Or(start.Session, start.Run)).Restore(ctx, plain)
	return plain, nil, err
}
