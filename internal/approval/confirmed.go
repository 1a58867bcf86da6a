package approval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// definitionsOf returns the subject (see Records) under which the definitions of a server are stored that a person has confirmed with their
// passphrase.
func definitionsOf(server string) string { return "definitions of " + server }

// assertedOf returns the subject under which the definitions of a server are stored that were confirmed with security keys.
func assertedOf(server string) string { return "definitions by security keys of " + server }

// maxAsserted is the maximum number of stored security key responses per server. Each has confirmed a definition that no later response
// has confirmed.
const maxAsserted = 1000

// asserted holds definitions of a server that a security key has confirmed.
type asserted struct {
	By          string            `json:"by"`
	Time        time.Time         `json:"time"`
	Definitions map[string]string `json:"definitions"` // hashes of definitions by tool
	Assertion   Assertion         `json:"assertion"`
}

// statement returns the hash of the statement by which a security key confirms the definitions.
func (a asserted) statement(server string) []byte {
	text, _ := json.Marshal(struct { // Strings always encode.
		Purpose, Server string
		Definitions     map[string]string
	}{"harness: approve definitions", server, a.Definitions})
	sum := sha256.Sum256(text)
	return sum[:]
}

// Definitions returns the definitions of a server that a person has confirmed; nil if no confirmation is required. A confirmation with a
// security key counts as long as the key is registered.
func (p *Presence) Definitions(ctx context.Context, server string) (Confirmed, error) {
	needed, err := p.Required(ctx)
	if err != nil || !needed {
		return nil, err
	}
	all, at, err := p.signedDefinitions(ctx, server)
	if err != nil {
		return Confirmed{}, err
	}
	later, err := p.assertedDefinitions(ctx, server)
	for _, a := range later {
		for tool, hash := range a.Definitions {
			if _, known := all[tool]; !known || a.Time.After(at) {
				all[tool] = hash
			}
		}
	}
	return all, err
}

// signedDefinitions returns the definitions that a person has confirmed with their passphrase, and the time of the last confirmation.
func (p *Presence) signedDefinitions(ctx context.Context, server string) (Confirmed, time.Time, error) {
	c, err := p.confirmation(ctx, definitionsOf(server))
	if err != nil || c == nil || c.Hash != hashOf(c.Content) {
		return Confirmed{}, time.Time{}, err
	}
	var all Confirmed
	if json.Unmarshal(c.Content, &all) != nil || all == nil {
		return Confirmed{}, time.Time{}, nil
	}
	return all, c.Time, nil
}

// assertedDefinitions returns the valid responses of security keys that confirm definitions of a server, oldest first.
func (p *Presence) assertedDefinitions(ctx context.Context, server string) (all []asserted, err error) {
	records, err := p.Records()
	if err != nil {
		return nil, err
	}
	text, err := records.Confirmation(ctx, assertedOf(server))
	if err != nil || text == nil || json.Unmarshal(text, &all) != nil {
		return nil, err
	}
	held := all[:0]
	for _, a := range all {
		stated := a.statement(server)
		if !slices.ContainsFunc(a.Assertion.Statements, func(of []byte) bool { return bytes.Equal(of, stated) }) {
			continue
		}
		switch _, _, err := p.verifyAssertion(ctx, a.By, a.Time, &a.Assertion); {
		case err == nil:
			held = append(held, a)
		case !errors.Is(err, ErrAssertion):
			return nil, err
		}
	}
	slices.SortStableFunc(held, func(a, b asserted) int { return a.Time.Compare(b.Time) })
	return held, nil
}

// ConfirmDefinitions stores that a person has confirmed definitions of a server with their passphrase. Earlier confirmations of other tools stay
// valid.
func (p *Presence) ConfirmDefinitions(ctx context.Context, sign Sign, server string, hashes map[string]string) error {
	all, at, err := p.signedDefinitions(ctx, server)
	if err != nil {
		return err
	}
	later, err := p.assertedDefinitions(ctx, server)
	if err != nil {
		return err
	}
	for _, a := range later {
		for tool := range a.Definitions {
			if a.Time.After(at) {
				delete(all, tool) // A security key confirmed a later definition. The older one would get the new time and take precedence.
			}
		}
	}
	maps.Copy(all, hashes)
	content, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return p.confirm(ctx, sign, definitionsOf(server), Confirmation{Hash: hashOf(content), Content: content})
}

// kindDefinitions is the kind of questions about definitions, see SealQuestion.
const kindDefinitions = "definitions"

// definitionsQuestion holds the definitions of a server that one response of a security key approves.
type definitionsQuestion struct {
	Asked
	Server      string            `json:"server"`
	Definitions map[string]string `json:"definitions"`
}

func (q definitionsQuestion) asserted() asserted {
	return asserted{By: q.By, Time: q.At(), Definitions: q.Definitions}
}

// AskDefinitions returns the question that a principal's security key answers to approve definitions of a server. The question is valid
// for these hashes, for two minutes, and for one response. The errors are those of Ask.
func (p *Presence) AskDefinitions(ctx context.Context, by, origin, server string, hashes map[string]string) (Question, error) {
	q, asked, err := p.Ask(ctx, by, origin)
	if err != nil {
		return q, err
	}
	about := definitionsQuestion{asked, server, hashes}
	q.Challenge = Challenge(by, asked.At(), asked.Nonce, [][]byte{about.asserted().statement(server)})
	q.Batch, err = p.SealQuestion(kindDefinitions, about)
	return q, err
}

// Answered holds definitions of a server that a security key has approved. KeepDefinitions stores them.
type Answered struct {
	Definitions map[string]string // hashes of definitions by tool
	of          asserted
}

// AnswerDefinitions checks the response of a security key to a question about definitions of a server. The error wraps ErrAssertion.
func (p *Presence) AnswerDefinitions(ctx context.Context, by, server, sealed string, a Assertion) (Answered, error) {
	var q definitionsQuestion
	if err := p.OpenQuestion(kindDefinitions, by, sealed, &q); err != nil {
		return Answered{}, err
	}
	if q.Server != server {
		return Answered{}, fmt.Errorf("%w: it is for another server", ErrAssertion)
	}
	of := q.asserted()
	a.Statements = [][]byte{of.statement(server)}
	if err := p.TakeAnswer(ctx, q.Asked, &a); err != nil {
		return Answered{}, err
	}
	of.Assertion = a
	return Answered{q.Definitions, of}, nil
}

// KeepDefinitions stores that definitions of a server were confirmed with a security key. It deletes a stored response if the response is no
// longer valid, or if later responses confirm all tools of the response again.
func (p *Presence) KeepDefinitions(ctx context.Context, server string, of Answered) error {
	all, err := p.assertedDefinitions(ctx, server)
	if err != nil {
		return err
	}
	all = append(all, of.of)
	later := map[string]bool{}
	for i, a := range slices.Backward(all) {
		last := false
		for tool := range a.Definitions {
			last = last || !later[tool]
			later[tool] = true
		}
		if !last {
			all = slices.Delete(all, i, i+1)
		}
	}
	if len(all) > maxAsserted {
		return AskError(fmt.Sprintf("security keys have approved definitions of the server %d times: harness servers review approves more with the passphrase", maxAsserted))
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	records, err := p.Records()
	if err != nil {
		return err
	}
	return records.Confirm(ctx, assertedOf(server), text)
}

// ForgetDefinitions deletes the confirmations of a server's definitions.
func (p *Presence) ForgetDefinitions(ctx context.Context, server string) error {
	if needed, err := p.Required(ctx); err != nil || !needed {
		return err
	}
	records, err := p.Records()
	if err != nil {
		return err
	}
	return errors.Join(
		records.Confirm(ctx, definitionsOf(server), []byte("{}")), // A record without a signature does not count as a confirmation.
		records.Confirm(ctx, assertedOf(server), []byte("[]")),
	)
}
