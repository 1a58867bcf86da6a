package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/journal"
)

// Replaced returns a request whose calls say where tokens in their arguments are replaced, and what of a value may end a text in code. values adds the
// values, for a caller who may see those of the request's user. Arguments that are too large for a request are read from the run's journal, whose
// calls have them as the program wrote them. Questions about tokens send no value. Where values cannot be read, the call says so.
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
		}
		if args == nil || strings.HasPrefix(c.Tool, "pii__") {
			continue
		}
		found, err := privacy.Replacements(ctx, args)
		if err != nil { // A denial needs no values, and a process without their key must not decide who may approve.
			c.Unread = err.Error()
		}
		for _, f := range found {
			of := approval.Replacement{Token: f.Token, Path: f.Path, Embedded: f.Embedded}
			if marks := f.Marks(); len(marks) > 0 {
				of.Warning = fmt.Sprintf("the value of %s contains %s, which may end a text in code", f.Token, strings.Join(marks, " and "))
			}
			if values {
				of.Value = f.Value
			}
			c.Replaced = append(c.Replaced, of)
		}
	}
	return r, nil
}
