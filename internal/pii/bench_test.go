package pii_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii"
)

// BenchmarkCall measures a tool call of 1 KiB: its input is hidden and restored, and its answer is hidden.
func BenchmarkCall(b *testing.B) {
	for name, change := range map[string]func(*pii.Options){"bracket": nil, "natural": natural} {
		b.Run(name, func(b *testing.B) { benchmarkCall(b, filter(b, pii.NewMemory(1), change).In("u", "s")) })
	}
}

func benchmarkCall(b *testing.B, s pii.Session) {
	raw := json.RawMessage(`{"n":1,"name":"Ann","mail":"ann@example.com","phone":"+1 202-555-0143","ip":"203.0.113.9","text":"` +
		strings.Repeat("All orders were shipped in time and nothing is left to be done. ", 14) + `"}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		hidden, err := s.HideJSON(b.Context(), pii.FromProgram, raw)
		if err != nil {
			b.Fatal(err)
		}
		restored, sent, err := s.RestoreJSON(b.Context(), hidden)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.HideJSON(b.Context(), crm, restored, sent...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHide hides a text with many values and a text without values.
func BenchmarkHide(b *testing.B) {
	for name, text := range map[string]string{
		"dense":  strings.Repeat(`ann@example.com, +1 202-555-0143, 219-09-9999 `, 20_000),
		"sparse": strings.Repeat("All orders were shipped in time and nothing is left to be done.\n", 15_000),
	} {
		b.Run(name, func(b *testing.B) {
			s := filter(b, pii.NewMemory(1), nil).In("u", "s")
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := s.Hide(b.Context(), crm, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
