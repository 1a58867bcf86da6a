package program

import (
	"context"
	"errors"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/program/uses"
)

// Limits for reading how a program uses tools. If reading a program takes longer, its uses of tools stay unknown.
const (
	maxUsesCPU  = 250 * time.Millisecond
	maxUsesTime = 5 * time.Second
)

// readUses reads how a compiled program uses tools. It returns nothing for a program that cannot be read within the limits. The
// error is that of ctx or of Charge.
func (o Options) readUses(ctx context.Context, src Source, p *parsed, code string) (uses.Uses, error) {
	imports := p.toolImports()
	if len(code) > uses.MaxCode || len(imports) == 1 && !mentionsTools(code) {
		return nil, nil
	}
	return remembered(o.Cache, keyOf("uses", src.Name, src.Code), func() (uses.Uses, int, error) {
		out, err := o.run(ctx, src.name(), task{Text: code, ReadUses: true, Imports: imports})
		var costly *Error
		if errors.As(err, &costly) {
			err = nil
		}
		return out.Uses, valueBytes * (1 + len(out.Uses)), err
	})
}

// mentionsTools reports whether a program may use tools. It is a quick check: most programs without tools need not be read.
func mentionsTools(code string) bool {
	return strings.Contains(code, "tools") || strings.Contains(code, "callMCPTool") || strings.Contains(code, "servers")
}

// valueBytes is the size that a Cache counts for each value of Uses.
const valueBytes = 256

// toolImports returns the parameters of the compiled program that stand for servers or their functions.
func (p *parsed) toolImports() map[string]uses.Import {
	names := map[string]uses.Import{p.dynamic: {Dynamic: true}}
	for _, d := range p.imports {
		path, ok := serverPath(strings.TrimPrefix(d.specifier, "file://"))
		if !ok || d.kind != importFrom {
			continue
		}
		for _, b := range d.bindings {
			if b.local != "" {
				names[identifier(b.local)] = uses.Import{Path: path, Name: b.name}
			}
		}
	}
	return names
}

// PlaceOf maps the place of a use of a tool in the compiled program to the position in the code as written.
func (c *Compiled) PlaceOf(at uses.Place) Position {
	file := c.Map[ProgramFile]
	if file == nil || at.Line < 0 {
		return Position{}
	}
	line, column, ok := file.original(at.Line, at.Column)
	if !ok {
		return Position{}
	}
	return Position{
		File: c.Source.name(), Line: line + 1, Column: column + 1, SourceLine: sourceLine(c.Source.Code, line+1, column+1),
	}
}
