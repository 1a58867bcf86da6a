// Package workspace keeps the files of a session, or of a run outside of one, until it ends.
package workspace

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/id"
)

// Store holds all workspaces. It is safe for concurrent use.
type Store struct{ base *files.Base }

// Open opens the workspaces in a directory of the host, creating it if it does not exist.
func Open(dir string, limits files.Limits) (*Store, error) {
	base, err := files.OpenBase(dir, files.Options{Limits: limits, Section: "workspace"})
	if err != nil {
		return nil, err
	}
	return &Store{base}, nil
}

// Dir returns the workspace of a user's session; a run outside of a session uses its own id for one. Nothing is
// created before the first write. The caller closes the Dir, which keeps the files.
func (s *Store) Dir(user, session string) (*files.Dir, error) { return s.base.Open(user, session) }

// Remove deletes a workspace at the end of its session. Dirs that are open on it fail from then on. A workspace that
// does not exist is no error.
func (s *Store) Remove(user, session string) error { return s.base.Remove(user, session) }

// Sweep removes the workspaces of runs of no session for which ended says so, given the run's id, and which nothing has
// changed since before.
func (s *Store) Sweep(ctx context.Context, before time.Time, ended func(run string) bool) error {
	return s.base.Sweep(ctx, func(name string, changed time.Time) bool {
		return id.Is("run", name) && changed.Before(before) && ended(name)
	})
}

// Close releases the store. The files stay.
func (s *Store) Close() error { return s.base.Close() }
