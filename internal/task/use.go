package task

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxUse is the time in which new runs of a session join its current use (see the type use). It is also the time for which a use is kept after its
// last run. So a client that makes call after call costs the store one commit in this time, not two for each call.
const maxUse = time.Second

// Uses tracks which sessions are used by runs without a task, for all services of a process. It is safe for concurrent use.
type Uses struct {
	opt UseOptions

	mu     sync.Mutex
	shared map[[2]string]*use // uses that runs may still join, by user and session
}

// UseOptions are the parts of a Uses.
type UseOptions struct {
	// Enter is Store.EnterSession.
	Enter  func(ctx context.Context, user, id string, now time.Time) (leave func(ctx context.Context, now time.Time) error, err error)
	Now    func() time.Time
	Logger *slog.Logger
}

// use is an entry by which the store counts a session as in use. Several runs of the session may share it.
type use struct {
	session [2]string
	leave   func(ctx context.Context, now time.Time) error
	since   time.Time
	last    time.Time // end of the last run
	runs    int
	timer   *time.Timer // ends the use maxUse after its last run; nil while it has runs
}

// NewUses creates a Uses from its parts.
func NewUses(opt UseOptions) *Uses {
	opt.Now = asStored(opt.Now)
	return &Uses{opt: opt, shared: map[[2]string]*use{}}
}

// Enter does the same as Store.EnterSession, except that the session may stay in use for maxUse after leave is called.
func (u *Uses) Enter(ctx context.Context, user, id string) (leave func(), err error) {
	session, now := [2]string{user, id}, u.opt.Now()
	joined := u.join(session, now)
	if joined == nil {
		end, err := u.opt.Enter(ctx, user, id, now)
		if err != nil {
			return nil, err
		}
		joined = &use{session: session, leave: end, since: now, runs: 1}
		u.share(joined)
	}
	return func() { u.left(joined) }, nil
}

// join adds a run to the session's current use and returns the use. It returns nil if there is none, or if the use began maxUse or longer ago.
func (u *Uses) join(session [2]string, now time.Time) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	in := u.shared[session]
	if in == nil || now.Sub(in.since) >= maxUse || now.Before(in.since) {
		return nil
	}
	in.runs++
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
	return in
}

// share makes a new use the current one of its session. New runs join this use. The previous use ends once it has no runs.
func (u *Uses) share(in *use) {
	u.mu.Lock()
	before := u.shared[in.session]
	u.shared[in.session] = in
	idle := before != nil && before.runs == 0
	if idle {
		before.timer.Stop()
	}
	u.mu.Unlock()
	if idle {
		u.end(before)
	}
}

// left records that a run of a use has ended. If the use then has no runs, it ends: after maxUse if it is the current one of its session, at once if
// it is not.
func (u *Uses) left(in *use) {
	u.mu.Lock()
	in.runs--
	in.last = u.opt.Now()
	ended := in.runs == 0 && u.shared[in.session] != in
	if in.runs == 0 && !ended {
		var timer *time.Timer
		timer = time.AfterFunc(maxUse, func() {
			if u.take(in, func() bool { return in.timer == timer }) {
				u.end(in)
			}
		})
		in.timer = timer
	}
	u.mu.Unlock()
	if ended {
		u.end(in)
	}
}

// take removes a use from shared if the use has no runs, is still shared, and the condition holds. The caller then ends the use.
func (u *Uses) take(in *use, holds func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if in == nil || u.shared[in.session] != in || in.runs > 0 || !holds() {
		return false
	}
	in.timer.Stop()
	delete(u.shared, in.session)
	return true
}

func (u *Uses) end(in *use) {
	if err := in.leave(context.Background(), in.last); err != nil {
		u.opt.Logger.Error("note the use of a session", "session", in.session[1], "error", err)
	}
}

// End ends the use of a session if no run uses the session any more.
func (u *Uses) End(user, id string) {
	u.mu.Lock()
	in := u.shared[[2]string{user, id}]
	u.mu.Unlock()
	if u.take(in, func() bool { return true }) {
		u.end(in)
	}
}

// Close ends all uses; runs must have ended.
func (u *Uses) Close() {
	u.mu.Lock()
	var all [][2]string
	for session := range u.shared {
		all = append(all, session)
	}
	u.mu.Unlock()
	for _, session := range all {
		u.End(session[0], session[1])
	}
}
