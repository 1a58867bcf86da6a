package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/run"
)

// A run that sends personal data while the vault does not answer does not end, and can be resumed later.
func TestVaultAway(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(*guest) *frame.Frame{
		"a call": func(g *guest) *frame.Frame {
			g.call(frame.Tool, "echo", `{"to":"ann@example.com"}`)
			g.take()
			return value(`1`)
		},
		"an output": func(*guest) *frame.Frame { return value(`"ann@example.com"`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var away atomic.Bool
			away.Store(true)
			memory := pii.NewMemory(1)
			d, err := detect.New(detect.Options{})
			if err != nil {
				t.Fatal(err)
			}
			filter := pii.New(pii.Options{
				Detector: d, Types: d.Types(), Now: time.Now,
				Vault: func() (pii.Vault, error) {
					if away.Load() {
						return nil, fmt.Errorf("%w: connection refused", pii.ErrUnavailable)
					}
					return memory, nil
				},
				Keys: func() (*seal.Keys, error) {
					return seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
				},
			})
			bubble(t, new(gate).on("echo", echo), func(t *testing.T, w *world) {
				writer, err := w.store.Create(t.Context(), "run_x")
				if err != nil {
					t.Fatal(err)
				}
				spec := w.spec()
				spec.Journal, spec.Privacy = writer, filter.In("u", "s")
				if out, err := w.execute(program, spec); !errors.Is(err, pii.ErrUnavailable) {
					t.Fatalf("ended as %+v, %v", out, err)
				}
				if err := writer.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				records, err := w.store.Read(context.Background(), "run_x")
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					if r.End != nil {
						t.Errorf("recorded: %+v", r)
					}
				}
				away.Store(false)
				if out, _ := w.resume(program, records); out.Status != run.Succeeded {
					t.Errorf("the resumed run ended as %+v", out.Error)
				}
			})
		})
	}
}
