package runs

import (
	"context"
	"time"
)

const (
	lookForOrphans = 10 * time.Minute
	resumable      = time.Hour // after its beginning, a run that was left can be resumed by its user
)

// WatchOrphans ends runs that nobody goes on with, from time to time until ctx ends. It is for whoever works the queue.
func (s *Service) WatchOrphans(ctx context.Context) {
	ticker := time.NewTicker(lookForOrphans)
	defer ticker.Stop()
	for {
		s.EndOrphans(ctx, s.opt.Now().Add(-resumable))
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
