package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

const (
	lookForDecisions = 2 * time.Second // interval of looking for decisions of other processes; a decision of this process wakes the loop
	resumeEach       = 16              // maximum number of runs of a user that are resumed at the same time; the maximum for all users is shareOfAll times as high
	resumeAgain      = 5 * time.Second // pause before a run that could not be resumed is tried again
	maxReason        = 1000            // maximum bytes of a denial's reason
	maxPreview       = 64 << 10        // maximum bytes of arguments in a request
)

// waitFor sets spec.Suspend to a function that stores a request for an approval. While the run waits, only its journal is kept.
func (s *Service) waitFor(spec *run.Spec, req Request) {
	start := journal.Start{Run: spec.Start.Run, Session: spec.Start.Session, User: spec.Start.User}
	req = Request{Task: req.Task, Principal: req.Principal}
	spec.Suspend = func(ctx context.Context, p run.Suspension) (*approval.Request, error) {
		now := s.opt.Now()
		r := approval.Request{
			ID: id.New("apr"), Run: start.Run, Task: req.Task, Session: start.Session, User: start.User, Principal: req.Principal, Status: approval.Waiting,
			Created: now, Expires: now.Add(s.opt.ApprovalExpiry), Calls: p.Calls, Made: p.Made, Resume: p.Resume,
		}
		for _, e := range p.Done {
			r.Done = append(r.Done, approval.Effect(e))
		}
		shorten(r.Calls)
		store, err := s.opt.Store()
		if err == nil {
			err = s.opt.Privacy.In(start.User, cmp.Or(start.Session, start.Run)).Keep(ctx, r.Expires)
		}
		if err == nil {
			err = store.Suspend(ctx, r, s.opt.ApprovalWebhook)
		}
		if errors.Is(err, task.ErrQuota) {
			return nil, &run.RefusedError{Answer: &frame.Error{
				Kind: frame.KindDenied, Name: "DeniedError", Message: "the call needs an approval, and cannot wait for it: " + quotaText(err),
			}}
		}
		if err != nil {
			return nil, fmt.Errorf("wait for an approval: %w", err)
		}
		s.opt.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.ApprovalRequested, Severity: telemetry.Medium, Details: map[string]any{"run": r.Run, "approval": r.ID, "calls": len(r.Calls)},
		})
		s.asked.Store(true)
		wake(s.decided) // ResumeDecided must know when the request expires
		return &r, nil
	}
}

// quotaText returns the text of a quota error without the description of the store's operation.
func quotaText(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		if !errors.Is(next, task.ErrQuota) || next == task.ErrQuota { //nolint:errorlint // the wrapped one itself
			break
		}
		err = next
	}
	return err.Error()
}

// shorten removes arguments from calls, so that at most maxPreview bytes remain. The arguments of the first calls stay.
func shorten(calls []approval.Call) {
	left := maxPreview
	for i := range calls {
		calls[i].ArgsBytes = len(calls[i].Args)
		if left -= len(calls[i].Args); left < 0 {
			calls[i].Args = nil
		}
	}
}

// decisions returns the approval.Decided of a run. It loads the decisions about the requests of the run and of its task on demand.
func (s *Service) decisions(runID, of string) *approval.Decided {
	return &approval.Decided{
		Load: func(ctx context.Context) ([]approval.Request, error) {
			return stored(s, func(store Store) ([]approval.Request, error) { return store.ApprovalsOf(ctx, runID, of) })
		},
		Check: s.confirmed, Now: s.opt.Now,
	}
}

// confirmed checks the signature of an approval. If the signature is missing or invalid, the approval was written into the store directly;
// confirmed then writes an audit event.
func (s *Service) confirmed(ctx context.Context, r approval.Request) error {
	err := s.opt.Presence.Check(ctx, r)
	if errors.Is(err, approval.ErrUnconfirmed) {
		s.opt.Logger.WarnContext(ctx, "an approval has no valid signature and counts as not decided", "approval", r.ID, "run", r.Run)
		s.opt.Record(ctx, telemetry.Event{
			Type: telemetry.ApprovalDecided, Severity: telemetry.Medium,
			Details: map[string]any{"run": r.Run, "approval": r.ID, "decision": "ignored", "reason": "no valid signature", "by": r.DecidedBy},
		})
	}
	return err
}

// waits returns the last request of a run, or nil if the run has none, and reports whether the run still waits for the decision. If the time of
// the request is over, waits marks the request as expired.
func (s *Service) waits(ctx context.Context, runID string) (last *approval.Request, waiting bool, err error) {
	store, err := s.opt.Store()
	if err != nil {
		return nil, false, err
	}
	all, err := store.ApprovalsOf(ctx, runID, "")
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	last = &all[len(all)-1]
	if last.Status != approval.Waiting {
		return last, false, nil
	}
	now := s.opt.Now()
	if last.Expires.After(now) {
		return last, true, nil
	}
	_, err = store.Decide(ctx, last.ID, approval.Expired, approval.Decision{Time: now})
	if errors.Is(err, approval.ErrDecided) {
		err = nil
	}
	return last, false, err
}

// Waiting returns the outcome of a run that waits for an approval, or nil if the run does not wait.
func (s *Service) Waiting(ctx context.Context, runID string) (*run.Outcome, error) {
	store, err := s.opt.Store()
	if err != nil {
		return nil, err
	}
	info, err := store.Run(ctx, runID)
	if err != nil || info.Status != run.WaitingApproval {
		return nil, err
	}
	all, err := store.ApprovalsOf(ctx, runID, "")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	records, err := store.Read(ctx, runID)
	if err != nil {
		return nil, err
	}
	last := all[len(all)-1]
	out := &run.Outcome{
		RunID: runID, Status: run.WaitingApproval, Approval: &last, Output: json.RawMessage("null"), Logs: []run.Log{}, Calls: last.Made,
		Duration: run.Millis(last.Resume.Elapsed), Sandbox: info.Tier,
	}
	for _, r := range records {
		switch {
		case r.Start != nil:
			out.Warnings = r.Start.Warnings
		case r.Log != nil:
			out.Logs = append(out.Logs, *r.Log)
		}
	}
	return out, nil
}

// Approvals lists requests for approvals, newest first. An empty f.User means the caller's user; it means every user if the caller is an admin or
// may act for all users.
func (s *Service) Approvals(ctx context.Context, who auth.Identity, f approval.Filter) (all []approval.Request, next string, err error) {
	if f.User == "" && !who.May(auth.Admin) {
		f.User = who.User
	} else if err := who.ActFor(f.User); f.User != "" && err != nil {
		return nil, "", err
	}
	store, err := s.opt.Store()
	if err != nil {
		return nil, "", err
	}
	return store.Approvals(ctx, f)
}

// Requests returns a run's requests for approvals, oldest first.
func (s *Service) Requests(ctx context.Context, runID string) ([]approval.Request, error) {
	return stored(s, func(store Store) ([]approval.Request, error) { return store.ApprovalsOf(ctx, runID, "") })
}

// Approval returns a request of a user whom the caller may act for. For any other request, the error wraps approval.ErrNotFound.
func (s *Service) Approval(ctx context.Context, who auth.Identity, requestID string) (approval.Request, error) {
	r, err := stored(s, func(store Store) (approval.Request, error) { return store.Approval(ctx, requestID) })
	if err == nil && who.ActFor(r.User) != nil {
		return approval.Request{}, fmt.Errorf("approval %q: %w", requestID, approval.ErrNotFound)
	}
	return r, err
}

// Decide approves or denies a request. The caller needs the role approver. A caller that is not an admin cannot approve a request of its own
// credential. If a person has to confirm approvals, d.Sign signs the approval, or d.Assertion confirms it. The error wraps auth.ErrForbidden,
// approval.ErrNotFound, approval.ErrDecided or approval.ErrUnconfirmed, or is an InvalidError.
func (s *Service) Decide(ctx context.Context, who auth.Identity, requestID string, d approval.Decision) (approval.Request, error) {
	r, err := s.Approval(ctx, who, requestID)
	if err == nil {
		err = mayDecide(who, r, d)
	}
	if err != nil {
		return r, err
	}
	store, err := s.opt.Store()
	if err != nil {
		return r, err
	}
	if d.Reason != "" {
		privacy := s.opt.Privacy.In(r.User, cmp.Or(r.Session, r.Run))
		if d.Reason, err = privacy.Hide(ctx, pii.FromTask, d.Reason); err != nil {
			return r, err
		}
	}
	status := approval.Denied
	if d.Approve {
		status = approval.Approved
	}
	d.By, d.Signature = who.Principal, nil
	if now := s.opt.Now(); d.Assertion == nil {
		d.Time = now
	} else if !r.Expires.After(now) {
		return r, fmt.Errorf("%w: it has expired", approval.ErrDecided)
	}
	if d.Approve {
		needed, err := s.opt.Presence.Required(ctx)
		switch {
		case err != nil:
			return r, err
		case needed && d.Sign == nil && d.Assertion == nil:
			return r, approval.ErrUnconfirmed
		case needed && r.Status != approval.Waiting:
			return r, fmt.Errorf("%w: it is %s", approval.ErrDecided, r.Status)
		case needed && !d.Seen.Is(r):
			return r, InvalidError("the request is not what was shown: look at it again")
		case needed:
			signed := d.Signed(r)
			if err := s.opt.Presence.Check(ctx, signed); err != nil {
				return r, err
			}
			d.Signature = signed.Signature
		}
	}
	if r, err = store.Decide(ctx, requestID, status, d); err != nil {
		return r, err
	}
	s.opt.Record(ctx, telemetry.Event{
		Type: telemetry.ApprovalDecided, Severity: telemetry.Medium,
		Details: map[string]any{
			"run": r.Run, "approval": r.ID, "decision": string(r.Status), "by": who.Principal, "remember": r.Remember, "confirmed": r.Signature != nil,
			"securityKey": d.Assertion != nil,
		},
	})
	wake(s.decided)
	return r, nil
}

// mayDecide returns an error if a caller may not make the decision d about a request.
func mayDecide(who auth.Identity, r approval.Request, d approval.Decision) error {
	switch {
	case !who.May(auth.Approver):
		return who.Require(auth.Approver)
	case d.Approve && !who.May(auth.Admin) && who.Principal == r.Principal:
		return fmt.Errorf("%w: a credential cannot approve calls of its own tasks and runs; another one with the role %s can", auth.ErrForbidden, auth.Approver)
	case d.Approve && d.Reason != "":
		return InvalidError("reason is for a denial")
	case !d.Approve && d.Remember:
		return InvalidError("remember is for an approval")
	case len(d.Reason) > maxReason:
		return InvalidError(fmt.Sprintf("reason has more than %d bytes", maxReason))
	}
	return nil
}

// Hold reserves a run for the caller, who resumes the run when its request is decided. Until release is called, ResumeDecided of this process
// skips the run. release is idempotent.
func (s *Service) Hold(runID string) (release func()) {
	s.holding.Lock()
	defer s.holding.Unlock()
	s.held[runID]++
	return sync.OnceFunc(func() {
		s.holding.Lock()
		if s.held[runID]--; s.held[runID] == 0 {
			delete(s.held, runID)
		}
		s.holding.Unlock()
		wake(s.decided)
	})
}

// isHeld reports whether Hold has reserved a run, and returns the number of reserved runs.
func (s *Service) isHeld(runID string) (held bool, all int) {
	s.holding.Lock()
	defer s.holding.Unlock()
	return s.held[runID] > 0, len(s.held)
}

// ResumeDecided resumes runs that belong to no task, once their request was decided by any process or has expired. It returns when ctx ends. It
// calls changed after a decision, and after a run of this process began to wait. Only processes that work the queue call ResumeDecided.
func (s *Service) ResumeDecided(ctx context.Context, changed func()) {
	var all sync.WaitGroup
	defer all.Wait()
	var mu sync.Mutex
	busy, each := map[string]bool{}, map[string]int{} // runs that are being resumed, and their number by user
	var last time.Time
	for ctx.Err() == nil {
		wait := lookForDecisions
		mu.Lock()
		taken := len(busy)
		mu.Unlock()
		_, held := s.isHeld("")
		ids, next, decided, err := s.dueRuns(ctx, resumeEach+taken+held)
		switch {
		case err != nil && ctx.Err() == nil:
			s.opt.Logger.Error("look for decided approvals", "error", err)
		case !next.IsZero():
			wait = min(wait, max(next.Sub(s.opt.Now()), 0))
		}
		if s.asked.Swap(false) || decided.After(last) {
			changed()
		}
		if decided.After(last) {
			last = decided
		}
		for _, runID := range ids {
			if held, _ := s.isHeld(runID); held {
				continue
			}
			info, err := stored(s, func(store Store) (journal.RunInfo, error) { return store.Run(ctx, runID) })
			if err != nil {
				continue // the run was deleted, or the store is unavailable
			}
			mu.Lock()
			skip := busy[runID] || each[info.User] == resumeEach || len(busy) == resumeEach*shareOfAll
			if !skip {
				busy[runID] = true
				each[info.User]++
			}
			mu.Unlock()
			if skip {
				continue
			}
			all.Go(func() {
				s.resumeDecided(ctx, runID)
				mu.Lock()
				delete(busy, runID)
				if each[info.User]--; each[info.User] == 0 {
					delete(each, info.User)
				}
				mu.Unlock()
				wake(s.decided)
			})
		}
		select {
		case <-s.decided:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (s *Service) dueRuns(ctx context.Context, limit int) (ids []string, next, decided time.Time, err error) {
	store, err := s.opt.Store()
	if err != nil {
		return nil, next, decided, err
	}
	return store.DueRuns(ctx, s.opt.Now(), limit)
}

// resumeDecided resumes one run.
func (s *Service) resumeDecided(ctx context.Context, runID string) {
	defer func() { // a panic in one run must not end the others
		if p := recover(); p != nil {
			s.opt.Logger.Error("go on with an approved run", "run", runID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(run.ErrHandedOver) })() // the next process resumes the run
	_, err := s.Resume(work, runID, nil)
	if err == nil || errors.Is(err, journal.ErrEnded) || errors.Is(err, journal.ErrNotFound) || ctx.Err() != nil {
		return
	}
	s.opt.Logger.Warn("go on with an approved run", "run", runID, "error", err)
	select { // the store or the sandbox is unavailable, or the user's queue is full
	case <-time.After(resumeAgain):
	case <-ctx.Done():
	}
}

// wake puts a token into c, unless c is full. c has room for one token.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
