package wasm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/sandbox"
)

// tokenPrograms are typical programs that process rows with tokens.
var tokenPrograms = map[string]string{
	"return 1": `return 1`,
	"sum":      `return rows.reduce((n, r) => n + Number(r.total), 0)`,
	"filter":   `return rows.filter((r) => r.note.includes('order') && r.total > 10).map((r) => r.email).length`,
	"group":    `const n = {}; for (const r of rows) { const d = r.email.split('@')[1]; n[d] = (n[d] ?? 0) + r.total } return n`,
	"report":   "return rows.map((r) => `${r.name.padEnd(40)} ${r.email.toLowerCase()} ${r.total.toFixed(2).padStart(10)}`).join('\\n').length",
	"words":    `const n = {}; for (const r of rows) for (const w of r.note.toLowerCase().split(/\W+/)) n[w] = (n[w] ?? 0) + 1; return Object.keys(n).length`,
	"csv":      `const lines = ['id,name,email,total']; for (const r of rows) lines.push([r.id, r.name, r.email, r.total].join(',')); return lines.join('\n').split('\n').slice(1).map((l) => l.split(',')[2].trim()).length`,
	"join":     `const by = new Map(rows.map((r) => [r.email, r])); return rows.filter((r) => by.get(r.email.trim().toLowerCase()) !== undefined).length`,
	"validate": `return rows.filter((r) => /^[^@\s]+@[^@\s]+\.[a-z]+$/.test(r.email) && r.note.trim().length > 3).length`,
	"sort":     `return rows.sort((a, b) => a.email.localeCompare(b.email) || b.total - a.total).slice(0, 10).map((r) => r.id)`,
}

// BenchmarkTokens measures the cost of watching operations on tokens. It executes each program alternately with and without the list of tokens. "ratio" is
// the ratio of the shortest times.
func BenchmarkTokens(b *testing.B) {
	s := setup(b)
	r, err := s.Start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Kill()
	for _, count := range []int{100, 2000} {
		rows := make([]map[string]any, count)
		for i := range rows {
			rows[i] = map[string]any{
				"id": i, "name": fmt.Sprintf("[NAME_%d]", i+1), "email": fmt.Sprintf("pii_%de@d%d.pii.invalid", i+1, i%20+1), "total": i % 97,
				"note": fmt.Sprintf("order %d was sent to [PHONE_%d] on a Monday, and paid", i, i+1),
			}
		}
		answer, err := json.Marshal(rows)
		if err != nil {
			b.Fatal(err)
		}
		tokens := map[string]string{"NAME": "crm__list $[*].name", "EMAIL": "crm__list $[*].email", "PHONE": "crm__list $[*].note"}
		for name, body := range tokenPrograms {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				var with, without []time.Duration
				for b.Loop() {
					without = append(without, timeOf(b, r, body, answer, nil))
					with = append(with, timeOf(b, r, body, answer, tokens))
				}
				w, o := slices.Min(with), slices.Min(without)
				b.ReportMetric(float64(w.Microseconds()), "with-us")
				b.ReportMetric(float64(o.Microseconds()), "without-us")
				b.ReportMetric(float64(w)/float64(o), "ratio")
			})
		}
	}
}

// timeOf returns the time that a worker computes from the start of a program to its end.
func timeOf(b *testing.B, r sandbox.Runner, body string, answer json.RawMessage, tokens map[string]string) time.Duration {
	b.Helper()
	defer reset(b, r)
	began := processorTime(b, r.Pid())
	program := &frame.Program{Code: "(async()=>{const rows = await callMCPTool('crm__list', {});" + body + "})"}
	if err := r.Send(&frame.Frame{
		T: frame.Start, Run: "run_a", Now: 1e15, Seed: strings.Repeat("ab", 32), Limits: &frame.Limits{Memory: 64 << 20, InFlight: 10, MaxValue: 8 << 20},
		Program: program,
	}); err != nil {
		b.Fatal(err)
	}
	for f := range r.Frames() {
		switch f.T {
		case frame.Call:
			if err := r.Send(&frame.Frame{T: frame.Answer, Run: "run_a", ID: f.ID, Sync: f.Sync, Now: 2e15, Value: answer, Tokens: tokens, Methods: program.Named()}); err != nil {
				b.Fatal(err)
			}
		case frame.Done:
			if f.Error != nil {
				b.Fatal(f.Error)
			}
			return processorTime(b, r.Pid()) - began
		}
	}
	b.Fatalf("runner ended: %v", r.Err())
	return 0
}

// processorTime returns the processor time of all threads of a process.
func processorTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		b.Skip("the system does not tell the processor time of a process")
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		var executed int64
		if _, err2 := fmt.Sscan(string(text), &executed); err != nil || err2 != nil {
			continue // the thread has ended
		}
		sum += time.Duration(executed)
	}
	return sum
}
