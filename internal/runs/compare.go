package runs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// How the calls of a pair differ.
const (
	SameCall       = "nothing"
	OtherArguments = "arguments"
	OtherAnswer    = "answer"    // the arguments are the same
	OnlyFirst      = "onlyFirst" // the second run has no corresponding call
	OnlySecond     = "onlySecond"
)

// CallPair is a call of one run and the corresponding call of another run, without their values.
type CallPair struct {
	Differs string    `json:"differs" enum:"nothing,arguments,answer,onlyFirst,onlySecond"`
	First   *CallLine `json:"first,omitempty"`
	Second  *CallLine `json:"second,omitempty"`
}

// maxPaired is the maximum number of calls of a run that Pairs compares.
const maxPaired = 20_000

// digested is a call with digests in place of its values.
type digested struct {
	CallLine
	args, answer [sha256.Size]byte
}

// Pairs aligns the calls of two runs in their order: first those with the same name and arguments, then the calls between them by name. The error is
// an InvalidError for runs of more than 20,000 calls. Both journals are read in pages.
func (s *Service) Pairs(ctx context.Context, first, second string) ([]CallPair, error) {
	a, err := s.digests(ctx, first)
	if err != nil {
		return nil, err
	}
	b, err := s.digests(ctx, second)
	if err != nil {
		return nil, err
	}
	return align(a, b), nil
}

func align(a, b []*digested) []CallPair { return pair(nil, a, b, byArguments, byName) }

func byArguments(c *digested) string { return c.Name + "\x00" + string(c.args[:]) }

func byName(c *digested) string { return c.Name }

func (s *Service) digests(ctx context.Context, id string) ([]*digested, error) {
	values := map[int]*digested{}
	c, err := s.calls(ctx, id, "", maxPaired, func(c *Call) {
		d := values[c.N]
		if d == nil {
			d = &digested{args: sha256.Sum256(c.Arguments)}
			values[c.N] = d
		}
		if c.Answered != nil {
			d.answer = sha256.Sum256(append([]byte(strconv.Quote(c.Error)+strconv.Quote(c.Message)), c.Result...))
		}
		c.Arguments, c.Result = nil, nil
	})
	if err != nil {
		return nil, err
	}
	if c.full {
		return nil, InvalidError(fmt.Sprintf("run %s has made more than %d calls: they are not compared", id, maxPaired))
	}
	all := make([]*digested, len(c.order))
	for i, line := range c.order {
		all[i] = values[line.N]
		all[i].CallLine = line.CallLine
	}
	return all, nil
}

// pair aligns calls with the same key, and the calls between them by the next key.
func pair(all []CallPair, a, b []*digested, key func(*digested) string, next ...func(*digested) string) []CallPair {
	keys := func(calls []*digested) (all []string) {
		for _, c := range calls {
			all = append(all, key(c))
		}
		return all
	}
	at, of := 0, 0
	same := func(until int) {
		for ; at < until; at, of = at+1, of+1 {
			all = append(all, CallPair{differs(a[at], b[of]), &a[at].CallLine, &b[of].CallLine})
		}
	}
	for at < min(len(a), len(b)) && key(a[at]) == key(b[at]) {
		same(at + 1)
	}
	a, b, at, of = a[at:], b[of:], 0, 0
	for _, d := range lcs.DiffLines(keys(a), keys(b)) {
		same(d.Start)
		if at, of = d.End, d.ReplEnd; len(next) > 0 {
			all = pair(all, a[d.Start:d.End], b[d.ReplStart:d.ReplEnd], next[0], next[1:]...)
			continue
		}
		for _, c := range a[d.Start:d.End] {
			all = append(all, CallPair{OnlyFirst, &c.CallLine, nil})
		}
		for _, c := range b[d.ReplStart:d.ReplEnd] {
			all = append(all, CallPair{OnlySecond, nil, &c.CallLine})
		}
	}
	same(len(a))
	return all
}

func differs(a, b *digested) string {
	switch {
	case a.args != b.args:
		return OtherArguments
	case a.answer != b.answer:
		return OtherAnswer
	}
	return SameCall
}
