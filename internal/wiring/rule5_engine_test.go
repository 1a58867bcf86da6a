package wiring_test

import (
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
)

// Rule 5, engine: a run that another engine recorded is replayed only with Force.
func TestRuleEngine(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	out := f.exec(code(`await utils.sleep(1); return 7`))
	records := f.journalOf(out.RunID)
	for name, edit := range map[string]func(*journal.Start){
		"tier":    func(s *journal.Start) { s.Tier = "another" },
		"engine":  func(s *journal.Start) { s.Engine = "another" },
		"prelude": func(s *journal.Start) { s.Prelude = "another" },
	} {
		foreign := edited(t, records, func(r *journal.Record) {
			if r.Start != nil {
				edit(r.Start)
			}
		})
		if _, err := f.Runs().Replay(t.Context(), foreign, runs.Replay{}); !errors.Is(err, runs.ErrEngine) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("another %s: %v", name, err)
		}
		again, err := f.Runs().Replay(t.Context(), foreign, runs.Replay{Force: true})
		if err != nil || again.Error != nil || string(again.Output) != "7" {
			t.Errorf("another %s by force: %+v, %v", name, again, err)
		}
		// A run that was in progress is resumed even with another engine.
		died := until(t, foreign, func(r journal.Record) bool { return r.Call != nil })
		if resumed := f.resumed("run_of_another_"+name, died); resumed.Error != nil || string(resumed.Output) != "7" {
			t.Errorf("resumed after an upgrade of the %s: %s, %+v", name, resumed.Output, resumed.Error)
		}
	}
}
