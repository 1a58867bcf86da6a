package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

// maxChosen is the maximum number of requests that one answer approves. The number is limited because each approval stores the hashes of all
// approvals of the answer.
const maxChosen = 100

// kindCalls marks a sealed question as one about calls; see approval.Presence.SealQuestion.
const kindCalls = "calls"

// Seen identifies a request as it was shown to a person.
type Seen struct {
	ID     string
	Digest string // approval.Sight.Digest of the request
}

// batch is the sealed content of a question: the requests that one answer of a security key approves.
type batch struct {
	approval.Asked
	Remember bool     `json:"remember"`
	Requests []string `json:"requests"`
}

// Ask creates a question: a challenge to a security key of the caller, on a page at an origin. The answer approves the chosen requests. The
// question is valid for these requests in their present form, for two minutes and for one answer. Ask returns the same errors as Decide.
func (s *Service) Ask(ctx context.Context, who auth.Identity, origin string, chosen []Seen, remember bool) (approval.Question, error) {
	if err := who.Require(auth.Approver); err != nil {
		return approval.Question{}, err
	}
	if len(chosen) == 0 || len(chosen) > maxChosen {
		return approval.Question{}, InvalidError(fmt.Sprintf("one answer approves 1 to %d requests", maxChosen))
	}
	q, asked, err := s.opt.Presence.Ask(ctx, who.Principal, origin)
	if err != nil {
		return approval.Question{}, err
	}
	b := batch{Asked: asked, Remember: remember}
	for _, c := range chosen {
		if slices.Contains(b.Requests, c.ID) {
			return approval.Question{}, InvalidError("a request is named twice")
		}
		b.Requests = append(b.Requests, c.ID)
		r, err := s.Approval(ctx, who, c.ID)
		if err == nil {
			err = mayDecide(who, r, approval.Decision{Approve: true, Remember: remember})
		}
		switch {
		case err != nil:
			return approval.Question{}, err
		case r.Status != approval.Waiting || !r.Expires.After(asked.At()):
			return approval.Question{}, fmt.Errorf("%s: %w", c.ID, approval.ErrDecided)
		case !r.Whole():
			return approval.Question{}, InvalidError(c.ID + " has arguments that are larger than a page shows: harness approvals approve shows them at a terminal")
		case r.Sight().Digest != c.Digest:
			return approval.Question{}, InvalidError(c.ID + " is not what was shown: look at it again")
		}
	}
	statements, _, err := s.statements(ctx, who, b)
	if err != nil {
		return approval.Question{}, err
	}
	q.Challenge = approval.Challenge(b.By, b.At(), b.Nonce, statements)
	q.Batch, err = s.opt.Presence.SealQuestion(kindCalls, b)
	return q, err
}

// statements returns, for each request of a batch, the hash of the statement that approves the request, and the request as it was shown.
func (s *Service) statements(ctx context.Context, who auth.Identity, b batch) (all [][]byte, seen []approval.Sight, err error) {
	for _, id := range b.Requests {
		r, err := s.Approval(ctx, who, id)
		if err != nil {
			return nil, nil, err
		}
		sight := waiting(r).Sight()
		signed := approval.Decision{Approve: true, Remember: b.Remember, By: b.By, Time: b.At(), Seen: sight, Assertion: &approval.Assertion{}}.Signed(r)
		all, seen = append(all, signed.Stated()), append(seen, sight)
	}
	return all, seen, nil
}

// waiting returns a request in the form that it had while it was waiting.
func waiting(r approval.Request) approval.Request {
	r.Status, r.Remember, r.DecidedAt, r.DecidedBy = approval.Waiting, false, nil, ""
	return r
}

// Approved is the result for one request that a security key approves.
type Approved struct {
	Request approval.Request
	Err     error // reason why the request is not approved; nil if the request is approved
}

// Answer approves the requests that a question was about. If one request cannot be approved, for example because it was decided meanwhile, Answer
// still approves the others. The error for an invalid answer wraps approval.ErrAssertion. An answer is accepted once.
func (s *Service) Answer(ctx context.Context, who auth.Identity, sealed string, a approval.Assertion) (all []Approved, err error) {
	if err := who.Require(auth.Approver); err != nil {
		return nil, err
	}
	var b batch
	if err := s.opt.Presence.OpenQuestion(kindCalls, who.Principal, sealed, &b); err != nil {
		return nil, s.refusedAnswer(ctx, who, err)
	}
	var seen []approval.Sight
	if a.Statements, seen, err = s.statements(ctx, who, b); err != nil {
		return nil, err
	}
	if err := s.opt.Presence.TakeAnswer(ctx, b.Asked, &a); err != nil {
		return nil, s.refusedAnswer(ctx, who, err)
	}
	for i, id := range b.Requests {
		r, err := s.Decide(ctx, who, id, approval.Decision{Approve: true, Remember: b.Remember, Time: b.At(), Seen: seen[i], Assertion: &a})
		all = append(all, Approved{r, err})
	}
	return all, nil
}

// refusedAnswer writes an audit event if err says that an answer is invalid. It returns err.
func (s *Service) refusedAnswer(ctx context.Context, who auth.Identity, err error) error {
	if errors.Is(err, approval.ErrAssertion) {
		s.opt.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": "refused answer of a security key", "by": who.Principal},
		})
	}
	return err
}
