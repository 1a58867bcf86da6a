package simulation_test

import (
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/simulation"
)

// BenchmarkRecorded reads 20,000 calls of 200 runs, with answers of 2 KiB. One request to the API reads at most this number of calls.
func BenchmarkRecorded(b *testing.B) {
	h := &history{}
	answer := `{"email":"[EMAIL_1]","rows":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a name of somebody","amount":123456},`, 45), ",") + `]}`
	for i := range 200 {
		var calls [][3]string
		for n := range 100 {
			calls = append(calls, [3]string{[]string{"crm__get", "mail__send"}[n%2], fmt.Sprintf(`{"to":"[EMAIL_1]","text":"text number %d of run %d"}`, n, i), answer})
		}
		h.add(fmt.Sprint("run_", i), fmt.Sprint("session", i%20), calls...)
	}
	bounds := simulation.Bounds{Runs: 200, Calls: 20_000, Bytes: 32 << 20, Args: 256 << 10, Origins: 32 << 20}
	strict := (&config.Config{}).Compiled(config.Policy{Preset: "strict"})
	open := (&config.Config{}).Compiled(config.Policy{Preset: "open"})
	for name, do := range map[string]func(s *simulation.Source) error{
		"simulate": func(s *simulation.Source) error { _, err := s.Simulate(b.Context(), open, strict); return err },
		"compare":  func(s *simulation.Source) error { _, err := s.Compare(b.Context(), &config.Config{}, 1000); return err },
		"flows":    func(s *simulation.Source) error { _, err := s.Flows(b.Context(), open, false, 1000); return err },
		"hidden":   func(s *simulation.Source) error { _, err := s.Hidden(b.Context(), 1000); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(h.source(bounds)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
