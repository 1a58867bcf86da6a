package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/telemetry"
)

// Doubt is a write whose outcome is unknown and that no one has settled. Tokens stand for personal data.
type Doubt struct {
	Run       string          `json:"runId"`
	N         int             `json:"call" doc:"Its number in the run."`
	User      string          `json:"userId"`
	Session   string          `json:"sessionId,omitempty"`
	Kind      string          `json:"kind" example:"tool"`
	Name      string          `json:"name" example:"crm__create_note"`
	Sent      time.Time       `json:"sentAt" doc:"When it was about to be sent."`
	Arguments json.RawMessage `json:"args,omitempty" doc:"Absent where they are large; GET /v1/runs/{id}/calls/{n} has them."`
	ArgsBytes int             `json:"argsBytes"`
}

// Doubts lists the writes in doubt that are not settled, the latest doubt first. An empty f.User means the caller's user; it means every user if
// the caller is an admin or may act for all users.
func (s *Service) Doubts(ctx context.Context, who auth.Identity, f journal.DoubtFilter) (all []Doubt, next string, err error) {
	if f.User == "" && !who.May(auth.Admin) {
		f.User = who.User
	} else if err := who.ActFor(f.User); f.User != "" && err != nil {
		return nil, "", err
	}
	store, err := s.opt.Store()
	if err != nil {
		return nil, "", err
	}
	found, next, err := store.Doubts(ctx, f)
	for _, d := range found {
		name, args := Called(d.Call.Kind, d.Call.Name, d.Call.Args)
		of := Doubt{Run: d.Run, N: d.Call.N, User: d.User, Session: d.Session, Kind: d.Call.Kind, Name: name, Sent: d.Sent, ArgsBytes: len(args)}
		if len(args) <= maxPreview {
			of.Arguments = args
		}
		all = append(all, of)
	}
	return all, next, err
}

// Settle stores what the caller found out about a write in doubt: journal.Done or journal.NotDone. A doubt is settled once. Settling it again with
// the same verdict changes nothing. The caller needs the role approver. The error wraps auth.ErrForbidden, journal.ErrNotFound, journal.ErrNoDoubt
// or journal.ErrSettled, or is an InvalidError.
func (s *Service) Settle(ctx context.Context, who auth.Identity, runID string, call int, verdict journal.Verdict, note string) (journal.Settlement, error) {
	info, err := s.Find(ctx, who, runID)
	switch {
	case err != nil:
		return journal.Settlement{}, err
	case !who.May(auth.Approver):
		return journal.Settlement{}, who.Require(auth.Approver)
	case verdict != journal.Done && verdict != journal.NotDone:
		return journal.Settlement{}, InvalidError(fmt.Sprintf("verdict is %s or %s", journal.Done, journal.NotDone))
	case len(note) > maxReason:
		return journal.Settlement{}, InvalidError(fmt.Sprintf("note has more than %d bytes", maxReason))
	}
	if note != "" {
		if note, err = s.tokens(info.User, info.Session, info.ID).Hide(ctx, pii.FromTask, note); err != nil {
			return journal.Settlement{}, err
		}
	}
	store, err := s.opt.Store()
	if err != nil {
		return journal.Settlement{}, err
	}
	now := s.opt.Now()
	settled, changed, err := store.Settle(ctx, info.ID, call, journal.Settlement{Verdict: verdict, At: &now, By: who.Principal, Note: note})
	if err == nil && changed {
		s.opt.Record(ctx, telemetry.Event{
			UserID: info.User, SessionID: info.Session, Type: telemetry.DoubtSettled, Severity: telemetry.Medium,
			Details: map[string]any{"run": info.ID, "call": call, "verdict": string(verdict), "by": who.Principal},
		})
	}
	return settled, err
}

// Settlements returns the settlements of calls of a run, by call. It leaves out calls that were never in doubt. A doubt that no one has settled has
// the verdict journal.Open.
func (s *Service) Settlements(ctx context.Context, runID string, calls []int) (map[int]journal.Settlement, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	return stored(s, func(store Store) (map[int]journal.Settlement, error) { return store.Settlements(ctx, runID, calls) })
}

// addSettlements sets the field Settlement of the calls that are in doubt.
func (s *Service) addSettlements(ctx context.Context, runID string, calls []*Call) error {
	var doubts []int
	for _, c := range calls {
		if c.Doubt {
			doubts = append(doubts, c.N)
		}
	}
	of, err := s.Settlements(ctx, runID, doubts)
	for _, c := range calls {
		if settled, ok := of[c.N]; ok {
			c.Settlement = &settled
		}
	}
	return err
}
