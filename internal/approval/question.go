package approval

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

// questionLife is the time in which a person has to answer with their security key.
const questionLife = 2 * time.Minute

// Question is a WebAuthn challenge to a security key, with what the browser needs to answer it.
type Question struct {
	Batch     string // result of SealQuestion; the browser sends it back with the response
	Challenge []byte
	RPID      string
	Keys      [][]byte // IDs of the keys that may answer
	Expires   time.Time
}

// Asked records who was asked a question, and when. It is part of every question's content.
type Asked struct {
	By    string `json:"by"`
	Time  int64  `json:"time"` // microseconds since the Unix epoch
	Nonce []byte `json:"nonce"`
}

// At returns the time of the question, which also counts as the time of the decision.
func (a Asked) At() time.Time { return time.UnixMicro(a.Time) }

// AskError is the reason why security keys cannot be used for a decision.
type AskError string

func (e AskError) Error() string { return string(e) }

// Ask prepares a question to a security key. The argument by is the principal of the key, and origin is the origin of the page that asks. The
// caller of Ask sets Question.Challenge and Question.Batch. The error is an AskError, or wraps ErrAssertion if the principal has no key for the
// origin.
func (p *Presence) Ask(ctx context.Context, by, origin string) (q Question, asked Asked, err error) {
	if q.RPID, err = RPID(origin); err != nil {
		return q, asked, AskError(err.Error())
	}
	if needed, err := p.Required(ctx); err != nil {
		return q, asked, err
	} else if !needed {
		return q, asked, AskError("approvals need no confirmation here")
	}
	keys, err := p.SecurityKeysOf(ctx, by)
	if err != nil {
		return q, asked, err
	}
	for _, k := range keys {
		if k.Origin == origin {
			q.Keys = append(q.Keys, k.ID)
		}
	}
	if len(q.Keys) == 0 {
		return q, asked, fmt.Errorf("%w: no security key of this caller is registered at %s: harness approvals security-keys add registers one", ErrAssertion, origin)
	}
	now := p.Now().Truncate(time.Microsecond)
	asked = Asked{By: by, Time: now.UnixMicro(), Nonce: make([]byte, 16)}
	rand.Read(asked.Nonce) // rand.Read never fails.
	q.Expires = now.Add(questionLife)
	return q, asked, nil
}

// SealQuestion encodes a question with a MAC, to be sent through the browser. Questions of different kinds are not interchangeable.
func (p *Presence) SealQuestion(kind string, question any) (string, error) {
	text, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	mac, err := p.questionMAC(kind, text)
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(mac), err
}

// questionMAC returns the MAC of a question. It uses the key of approvals, which all servers with the same state share. Any of these servers
// therefore accepts the response, even after a restart.
func (p *Presence) questionMAC(kind string, text []byte) ([]byte, error) {
	key, err := Key(p.Dir)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("question to a security key\x00" + kind + "\x00"))
	mac.Write(text)
	return mac.Sum(nil), nil
}

// OpenQuestion decodes the result of SealQuestion into question. The error wraps ErrAssertion if the text was not sealed here for this kind,
// if another principal was asked, or if the question has expired.
func (p *Presence) OpenQuestion(kind, by, sealed string, question any) error {
	first, last, _ := strings.Cut(sealed, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return ErrAssertion
	}
	given, err := base64.RawURLEncoding.DecodeString(last)
	if err != nil {
		return ErrAssertion
	}
	mac, err := p.questionMAC(kind, text)
	if err != nil {
		return err
	}
	var asked Asked
	switch {
	case !hmac.Equal(mac, given) || json.Unmarshal(text, &asked) != nil || json.Unmarshal(text, question) != nil:
		return fmt.Errorf("%w: this server has not asked this", ErrAssertion)
	case asked.By != by:
		return fmt.Errorf("%w: another caller was asked", ErrAssertion)
	case !p.Now().Before(asked.At().Add(questionLife)):
		return fmt.Errorf("%w: it comes later than %s after the question", ErrAssertion, questionLife)
	}
	return nil
}

// maxAnswers is the maximum number of remembered answers of all callers.
const maxAnswers = 10_000

// answers records the questions answered in this process until they expire. Another process may accept the same answer again, but what the
// answer approves is then already decided.
type answers struct {
	mu   sync.Mutex
	done map[string]time.Time // expiry times of the answered questions, by nonce
}

// take reports whether no answer to the question was recorded before, and records the answer. If too many answers are remembered, it returns false.
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

// TakeAnswer checks the response of a security key to a question. It accepts only one response to each question. The error for an invalid or
// second response wraps ErrAssertion.
func (p *Presence) TakeAnswer(ctx context.Context, asked Asked, a *Assertion) error {
	a.Nonce = asked.Nonce
	if !p.answered.take(asked.Nonce, asked.At().Add(questionLife), p.Now()) {
		return fmt.Errorf("%w: it was given before", ErrAssertion)
	}
	return p.TakeAssertion(ctx, asked.By, asked.At(), a)
}
