package runs

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/telemetry"
)

const (
	// challengeLife is how long a person has to answer with their security key.
	challengeLife = 2 * time.Minute
	// maxChosen is the most requests that one answer approves: each approval keeps a hash of all of them.
	maxChosen = 100
)

// Seen names a request as a person was shown it.
type Seen struct {
	ID     string
	Digest string // approval.Sight
}

// Question is what a security key is asked.
type Question struct {
	Batch     string // goes back with the answer
	Challenge []byte
	RPID      string
	Keys      [][]byte // ids of the keys that may answer
	Expires   time.Time
}

// batch is what one answer of a security key approves. It travels by way of the browser, with a MAC.
type batch struct {
	By       string   `json:"by"`
	Time     int64    `json:"time"` // microseconds since the Unix epoch
	Nonce    []byte   `json:"nonce"`
	Remember bool     `json:"remember"`
	Requests []string `json:"requests"`
}

// Ask makes the question that a security key of the caller answers to approve requests, on a page at an origin. It is for these requests as they are, for two minutes,
// and for one answer. Errors are those of Decide.
func (s *Service) Ask(ctx context.Context, who auth.Identity, origin string, chosen []Seen, remember bool) (Question, error) {
	if err := who.Require(auth.Approver); err != nil {
		return Question{}, err
	}
	if len(chosen) == 0 || len(chosen) > maxChosen {
		return Question{}, InvalidError(fmt.Sprintf("one answer approves 1 to %d requests", maxChosen))
	}
	host, err := approval.RPID(origin)
	if err != nil {
		return Question{}, InvalidError(err.Error())
	}
	if needed, err := s.opt.Presence.Required(ctx); err != nil {
		return Question{}, err
	} else if !needed {
		return Question{}, InvalidError("approvals need no confirmation here")
	}
	keys, err := s.opt.Presence.SecurityKeysOf(ctx, who.Principal)
	if err != nil {
		return Question{}, err
	}
	q := Question{RPID: host}
	for _, k := range keys {
		if k.Origin == origin {
			q.Keys = append(q.Keys, k.ID)
		}
	}
	if len(q.Keys) == 0 {
		return Question{}, fmt.Errorf("%w: no security key of this caller is registered at %s: harness approvals security-keys add registers one", approval.ErrAssertion, origin)
	}
	now := s.opt.Now().Truncate(time.Microsecond)
	b := batch{By: who.Principal, Time: now.UnixMicro(), Nonce: make([]byte, 16), Remember: remember}
	rand.Read(b.Nonce) // never fails
	q.Expires = now.Add(challengeLife)
	for _, c := range chosen {
		if slices.Contains(b.Requests, c.ID) {
			return Question{}, InvalidError("a request is named twice")
		}
		b.Requests = append(b.Requests, c.ID)
		r, err := s.Approval(ctx, who, c.ID)
		if err == nil {
			err = mayDecide(who, r, approval.Decision{Approve: true, Remember: remember})
		}
		switch {
		case err != nil:
			return Question{}, err
		case r.Status != approval.Waiting || !r.Expires.After(now):
			return Question{}, fmt.Errorf("%s: %w", c.ID, approval.ErrDecided)
		case !r.Whole():
			return Question{}, InvalidError(c.ID + " has arguments that are larger than a page shows: harness approvals approve shows them at a terminal")
		case r.Sight().Digest != c.Digest:
			return Question{}, InvalidError(c.ID + " is not what was shown: look at it again")
		}
	}
	statements, _, err := s.statements(ctx, who, b)
	if err != nil {
		return Question{}, err
	}
	q.Challenge = approval.Challenge(b.By, now, b.Nonce, statements)
	q.Batch, err = s.sealBatch(b)
	return q, err
}

// statements are the hashes of what the approvals of a batch state, and the requests as they were shown.
func (s *Service) statements(ctx context.Context, who auth.Identity, b batch) (all [][]byte, seen []approval.Sight, err error) {
	for _, id := range b.Requests {
		r, err := s.Approval(ctx, who, id)
		if err != nil {
			return nil, nil, err
		}
		sight := waiting(r).Sight()
		signed := approval.Decision{Approve: true, Remember: b.Remember, By: b.By, Time: time.UnixMicro(b.Time), Seen: sight, Assertion: &approval.Assertion{}}.Signed(r)
		all, seen = append(all, signed.Stated()), append(seen, sight)
	}
	return all, seen, nil
}

// waiting is a request as it was before it was decided.
func waiting(r approval.Request) approval.Request {
	r.Status, r.Remember, r.DecidedAt, r.DecidedBy = approval.Waiting, false, nil, ""
	return r
}

func (s *Service) sealBatch(b batch) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	mac, err := s.batchMAC(text)
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(mac), err
}

// batchMAC is keyed with the secret of approvals, which the servers of a store share: one that has restarted, or another one, takes the answer.
func (s *Service) batchMAC(text []byte) ([]byte, error) {
	key, err := s.opt.ApprovalKey()
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("question to a security key\x00"))
	mac.Write(text)
	return mac.Sum(nil), nil
}

// openBatch is the batch of a question that was asked of the caller not long ago.
func (s *Service) openBatch(who auth.Identity, sealed string) (b batch, err error) {
	first, last, _ := strings.Cut(sealed, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return b, approval.ErrAssertion
	}
	given, err := base64.RawURLEncoding.DecodeString(last)
	if err != nil {
		return b, approval.ErrAssertion
	}
	mac, err := s.batchMAC(text)
	if err != nil {
		return b, err
	}
	switch {
	case !hmac.Equal(mac, given) || json.Unmarshal(text, &b) != nil:
		return b, fmt.Errorf("%w: this server has not asked this", approval.ErrAssertion)
	case b.By != who.Principal:
		return b, fmt.Errorf("%w: another caller was asked", approval.ErrAssertion)
	case !s.opt.Now().Before(time.UnixMicro(b.Time).Add(challengeLife)):
		return b, fmt.Errorf("%w: it comes later than %s after the question", approval.ErrAssertion, challengeLife)
	}
	return b, nil
}

// maxAnswers is the most answers that are remembered, of all callers.
const maxAnswers = 10_000

// answers are the questions that were answered in this process, until they end anyway. Another process takes an answer again only to find its requests decided.
type answers struct {
	mu   sync.Mutex
	done map[string]time.Time // ends of questions, by nonce
}

// take reports whether a question was not answered before.
func (a *answers) take(nonce []byte, end, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.done, func(_ string, end time.Time) bool { return !now.Before(end) })
	if _, again := a.done[string(nonce)]; again || len(a.done) >= maxAnswers {
		return false
	}
	if a.done == nil {
		a.done = map[string]time.Time{}
	}
	a.done[string(nonce)] = end
	return true
}

// Approved is what has become of one request that a security key approves.
type Approved struct {
	Request approval.Request
	Err     error // why it is not approved
}

// Answer approves what a security key was asked. One request that cannot be approved, because it was decided meanwhile, stops no other. The error for an answer that does
// not hold wraps approval.ErrAssertion. An answer is taken once.
func (s *Service) Answer(ctx context.Context, who auth.Identity, sealed string, a approval.Assertion) (all []Approved, err error) {
	if err := who.Require(auth.Approver); err != nil {
		return nil, err
	}
	b, err := s.openBatch(who, sealed)
	if err != nil {
		return nil, s.refusedAnswer(ctx, who, err)
	}
	var seen []approval.Sight
	if a.Statements, seen, err = s.statements(ctx, who, b); err != nil {
		return nil, err
	}
	a.Nonce = b.Nonce
	at := time.UnixMicro(b.Time)
	if !s.answered.take(b.Nonce, at.Add(challengeLife), s.opt.Now()) {
		return nil, s.refusedAnswer(ctx, who, fmt.Errorf("%w: it was given before", approval.ErrAssertion))
	}
	if err := s.opt.Presence.TakeAssertion(ctx, who.Principal, at, &a); err != nil {
		return nil, s.refusedAnswer(ctx, who, err)
	}
	for i, id := range b.Requests {
		r, err := s.Decide(ctx, who, id, approval.Decision{Approve: true, Remember: b.Remember, Time: at, Seen: seen[i], Assertion: &a})
		all = append(all, Approved{r, err})
	}
	return all, nil
}

// refusedAnswer records that an answer was refused.
func (s *Service) refusedAnswer(ctx context.Context, who auth.Identity, err error) error {
	if errors.Is(err, approval.ErrAssertion) {
		s.opt.Audit.Audit(ctx, telemetry.Event{
			Type: telemetry.AuthFailure, Severity: telemetry.Medium, Details: map[string]any{"reason": "refused answer of a security key", "by": who.Principal},
		})
	}
	return err
}
