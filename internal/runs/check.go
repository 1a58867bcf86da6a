package runs

import (
	"context"
	"fmt"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/program/check"
	"mcp-code-exec-harness/internal/run"
)

// What becomes of a program that uses a tool, an argument or a field of an answer that does not exist.
const (
	CheckOff    = "off"    // programs are not checked
	CheckWarn   = "warn"   // it runs, and its outcome has warnings
	CheckRefuse = "refuse" // it does not run
)

// check finds what a program uses that does not exist. A program that is refused has an error, for the first mistake, and warnings for the
// others.
func (s *Service) check(ctx context.Context, env *environment, compiled *program.Compiled) (refused *run.Error, warnings []string, err error) {
	if len(compiled.Uses) == 0 {
		return nil, nil, nil
	}
	for _, m := range check.Check(ctx, compiled.Uses, check.Tools{
		Catalog: s.opt.Catalog, Ensure: s.opt.EnsureTools, Unavailable: s.opt.Unavailable,
	}) {
		at := compiled.PlaceOf(m.At)
		if at.Line == 0 {
			continue
		}
		message, err := env.privacy.Hide(ctx, pii.FromCode, m.Message) // it has words of servers
		if err != nil {
			return nil, nil, err
		}
		if s.opt.Check == CheckRefuse && refused == nil {
			refused = &run.Error{
				Kind: frame.KindSyntax, Name: "CheckError", Message: message, File: at.File, Line: at.Line, Column: at.Column, Source: at.SourceLine,
				Hint: "nothing was run; correct the program and run it again",
			}
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s:%d:%d: %s", at.File, at.Line, at.Column, message))
	}
	return refused, warnings, nil
}
