package wiring_test

import (
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// A run whose imports use up the time to compile ends with its own timeout, and a new program of another user is compiled meanwhile.
func TestCompilingIsCharged(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{"sandbox.timeout": "10s"})
	begun := make(chan struct{})
	var once sync.Once
	ended := make(chan *run.Outcome, 1)
	go func() {
		out, err := f.Runs().Execute(t.Context(), runs.Request{
			User: "hostile",
			Code: `
await Promise.all(Array.from({ length: 10 }, (_, i) => fs.writeFile('/workspace/' + i + '.js', 'using x=1;'.repeat(30000) + i)))
return await Promise.allSettled(Array.from({ length: 10 }, (_, i) => import('/workspace/' + i + '.js')))`,
			Observe: func(e run.Event) {
				if e.Call != nil && e.Call.Kind == "module" {
					once.Do(func() { close(begun) })
				}
			},
		})
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	select {
	case <-begun:
	case out := <-ended:
		t.Fatalf("ended as %s before its first import: %+v", out.Status, out.Error)
	}
	for range 3 {
		out, err := f.Runs().Execute(t.Context(), runs.Request{User: "other", Code: "return 1 // " + t.Name()})
		if err != nil || out.Status != run.Succeeded {
			t.Errorf("%+v, %v", out, err)
		}
	}
	select {
	case out := <-ended:
		t.Errorf("the other's programs waited until the hostile run had ended as %+v", out.Error)
	default:
	}
	if out := <-ended; kind(out) != frame.KindTimeout {
		t.Errorf("ended as %s: %+v", out.Status, out.Error)
	}
}
