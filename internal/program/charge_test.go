package program

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/slots"
)

// The cost of compiling a program is charged. If the charge is refused, the compilation ends.
func TestCharge(t *testing.T) {
	t.Parallel()
	spent := errors.New("spent")
	left := 2
	opts := Options{
		Cache: NewCache(),
		Compiler: &Compiler{slots: slots.New(slots.Limits{All: 2, Each: 1}, "texts", "compiled"), do: func(t task) product {
			p := t.do()
			p.CPU = time.Second
			return p
		}},
		Charge: func(used time.Duration) error {
			if used != time.Second {
				t.Errorf("charged %s", used)
			}
			if left--; left < 0 {
				return spent
			}
			return nil
		},
		Resolver: sandbox{files: map[string]string{
			"/skills/a.js": "import '/skills/b.js'", "/skills/b.js": "import '/skills/c.js'", "/skills/c.js": "export default 1",
		}},
	}
	if _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); !errors.Is(err, spent) {
		t.Errorf("ended with %v", err)
	}
	left = 0 // The cache holds the first two modules.
	if _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); !errors.Is(err, spent) {
		t.Errorf("ended with %v", err)
	}
}

// A text that cannot be compiled is compiled only once. A text whose compilation failed for another reason is compiled again.
func TestFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	tries := 0
	opts := Options{
		Cache: NewCache(),
		Compiler: &Compiler{slots: slots.New(slots.Limits{All: 2, Each: 1}, "texts", "compiled"), do: func(t task) product {
			tries++
			return t.do()
		}},
		Resolver: sandbox{files: map[string]string{"/skills/a.js": "const a = ;"}},
	}
	compile := func() error { _, err := CompileModule(t.Context(), "/skills/a.js", ProgramFile, opts); return err }
	first := compile()
	tried := tries
	if again := compile(); first == nil || again == nil || again.Error() != first.Error() || tries != tried {
		t.Errorf("%v, then %v, %d tries", first, again, tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opts.Resolver = sandbox{files: map[string]string{"/skills/a.js": "export const a = 1"}}
	if _, err := CompileModule(ctx, "/skills/a.js", ProgramFile, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if err := compile(); err != nil {
		t.Error(err)
	}
}
