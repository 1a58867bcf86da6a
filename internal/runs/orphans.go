package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/journal"
)

const (
	lookForOrphans = 10 * time.Minute
	resumable      = time.Hour // minimum age at which a run of a dead process is ended; until then, its user can resume it
)

// WatchOrphans ends the runs of dead processes and removes workspaces of ended runs, every lookForOrphans until ctx ends. Only
// processes that work the queue call it.
func (s *Service) WatchOrphans(ctx context.Context) {
	ticker := time.NewTicker(lookForOrphans)
	defer ticker.Stop()
	for {
		before := s.opt.Now().Add(-resumable)
		if err := s.EndOrphans(ctx, before); err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("end the runs of dead processes", "error", err)
		}
		if err := s.SweepWorkspaces(ctx, before); err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("sweep workspaces", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// EndOrphans ends runs of dead processes as cancelled, if they began before a time and belong to no unfinished task.
func (s *Service) EndOrphans(ctx context.Context, before time.Time) error {
	strays, err := stored(s, func(store Store) ([]journal.RunInfo, error) { return store.Strays(ctx) })
	for _, r := range strays {
		if r.Started.After(before) || ctx.Err() != nil {
			continue
		}
		if failed := s.Abandon(ctx, r.ID); failed != nil {
			err = errors.Join(err, fmt.Errorf("run %s: %w", r.ID, failed))
		}
	}
	return err
}

// SweepWorkspaces removes the workspaces of runs without a session and the copies of runs' inputs that killed processes have left. A workspace or
// copy is removed if its run has ended or has no record, and if nothing in it has changed since the given time.
func (s *Service) SweepWorkspaces(ctx context.Context, before time.Time) error {
	store, err := s.opt.Store()
	if err != nil {
		return err
	}
	work, err := s.opt.Workspace()
	if err != nil {
		return err
	}
	inputs, err := s.opt.Inputs()
	if err != nil {
		return err
	}
	ended := func(run string) bool {
		info, err := store.Run(ctx, run)
		return errors.Is(err, journal.ErrNotFound) || err == nil && !info.Ended.IsZero()
	}
	return errors.Join(work.Sweep(ctx, before, ended), inputs.Sweep(ctx, before, ended))
}
