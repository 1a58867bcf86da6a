package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/language"
)

// Replaced returns r with the replacements in its calls. They show where tokens in the arguments are replaced, and which parts of a value may end
// a text in code. If values is set, they contain the values; the caller must be allowed to see the values of the request's user. Arguments that
// are too large for a request are read from the run's journal, as the program wrote them. Calls of the tools pii__… have no replacements, because
// these tools receive the tokens. If values cannot be read, the call contains the error.
func (s *Service) Replaced(ctx context.Context, r approval.Request, values bool) (approval.Request, error) {
	r.Calls = slices.Clone(r.Calls)
	privacy := s.opt.Privacy.In(r.User, cmp.Or(r.Session, r.Run))
	var records []journal.Record
	for i := range r.Calls {
		c := &r.Calls[i]
		args := c.Args
		if args == nil && c.ArgsBytes > 0 {
			if records == nil {
				var err error
				if records, err = s.Journal(ctx, r.Run); err != nil {
					return r, err
				}
			}
			for _, record := range records {
				if record.Call != nil && record.Call.N == c.N {
					args = record.Call.Args
				}
			}
			args = s.arguments(c.Tool, args)
		}
		if args == nil || strings.HasPrefix(c.Tool, "pii__") {
			continue
		}
		var languages pii.Languages
		if tool, err := s.opt.Catalog.ResolveIn("", c.Tool); err == nil {
			languages = s.opt.Gate.Languages(tool)
		}
		found, err := privacy.Replacements(ctx, args, languages)
		if err != nil { // The request is shown without the values: a denial needs no values, and a missing key must not decide who may approve.
			c.Unread = err.Error()
		}
		for _, f := range found {
			of := approval.Replacement{Token: f.Token, Path: f.Path, Embedded: f.Embedded}
			if marks := f.Marks(); len(marks) > 0 {
				of.Warning = fmt.Sprintf("the value of %s contains %s, which may end a text in code", f.Token, strings.Join(marks, " and "))
			}
			if f.Language != language.None {
				of.Language = string(f.Language)
			}
			if values {
				of.Value = f.Value
			}
			if values && f.Written != f.Value {
				of.Written = f.Written
			}
			c.Replaced = append(c.Replaced, of)
		}
	}
	return r, nil
}

// arguments returns the arguments of a recorded tool call. If they cannot be determined, for example because the tool is not known, it returns
// recorded.
func (s *Service) arguments(name string, recorded json.RawMessage) json.RawMessage {
	var in struct {
		Input      json.RawMessage   `json:"input"`
		Positional []json.RawMessage `json:"positional"`
	}
	tool, err := s.opt.Catalog.ResolveIn("", name)
	if err != nil || json.Unmarshal(recorded, &in) != nil {
		return recorded
	}
	args, err := tool.Arguments(in.Input, in.Positional)
	if err != nil {
		return recorded
	}
	return args
}
