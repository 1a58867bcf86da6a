package runs

import (
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/program"
)

// A run without a runner whose journal cannot be read still ends with the host's error.
func TestLocateWithoutProgram(t *testing.T) {
	t.Parallel()
	l := &locator{compiled: &program.Compiled{Source: program.Source{Code: "await tools.x.slow()"}}}
	l.use(nil)
	l.add(program.SourceMap{})
	got := l.locate(&frame.Error{Kind: frame.KindTimeout, Message: "the run took longer than 1h0m0s, waiting included"})
	if got.Kind != frame.KindTimeout || got.Message != "the run took longer than 1h0m0s, waiting included" || got.Line != 0 {
		t.Errorf("got %+v", got)
	}
}
