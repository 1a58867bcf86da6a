package runs

import (
	"context"
	"errors"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const (
	lookForOrphans = 10 * time.Minute
	resumable      = time.Hour // after its beginning, a run that was left can be resumed by its user
)

// WatchOrphans ends runs that no process goes on with and removes workspaces of runs that have ended, from time to time
// until ctx ends. Only the process that works the queue calls it.
func (s *Service) WatchOrphans(ctx context.Context) {
	ticker := time.NewTicker(lookForOrphans)
	defer ticker.Stop()
	for {
		before := s.opt.Now().Add(-resumable)
		s.EndOrphans(ctx, before)
		s.SweepWorkspaces(ctx, before)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// EndOrphans ends, as cancelled, the runs from before a time that dead processes have left in the middle and that no
// unfinished task names. What cannot be ended is logged, and is there for the next time.
func (s *Service) EndOrphans(ctx context.Context, before time.Time) {
	keep, err := s.opt.Store()
	if err != nil {
		s.opt.Logger.Error("find the runs of dead processes", "error", err)
		return
	}
	strays, err := keep.Strays(ctx)
	if err != nil && ctx.Err() == nil {
		s.opt.Logger.Error("find the runs of dead processes", "error", err)
	}
	for _, r := range strays {
		if ctx.Err() != nil {
			return
		}
		if r.Started.After(before) {
			continue
		}
		if err := s.Abandon(ctx, r.ID); err != nil {
			s.opt.Logger.Error("end the run of a dead process", "run", r.ID, "error", err)
		}
	}
}

// SweepWorkspaces removes the workspaces of runs of no session that have ended, or that left no record, where nothing has
// changed since before: a process was killed before it could remove them.
func (s *Service) SweepWorkspaces(ctx context.Context, before time.Time) {
	keep, err := s.opt.Store()
	if err != nil {
		s.opt.Logger.Error("sweep workspaces", "error", err)
		return
	}
	work, err := s.opt.Workspace()
	if err != nil {
		s.opt.Logger.Error("sweep workspaces", "error", err)
		return
	}
	err = work.Sweep(ctx, before, func(run string) bool {
		info, err := keep.Run(ctx, run)
		return errors.Is(err, journal.ErrNotFound) || err == nil && !info.Ended.IsZero()
	})
	if err != nil && ctx.Err() == nil {
		s.opt.Logger.Error("sweep workspaces", "error", err)
	}
}
