package sqlstore

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func asText(r json.RawMessage) string { return string(r) }

func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// wantText checks that an error contains texts, such as the name of a thing or a remedy.
func wantText(t testing.TB, what string, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", what, texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got error %q, want %q in it", what, err, text)
		}
	}
}

func bigStart(run, what string) journal.Record {
	r := journaltest.Start(run)
	r.Start.Source = "// " + strings.Repeat(what, 10_000)
	return r
}

func bigAnswer(n int, what string) journal.Record {
	r := journaltest.Answer(n)
	r.Answer.Value = json.RawMessage(`"` + strings.Repeat(what+".", 10_000) + `"`)
	return r
}

func endAt(micros int64) journal.Record {
	r := journaltest.End()
	r.End.Time = micros
	return r
}

func startAt(run string, micros int64) journal.Record {
	r := journaltest.Start(run)
	r.Start.Time = micros
	return r
}

// stats counts what a store has written since it was opened. Group commit stores several changes in one transaction.
type stats struct{ Changes, Transactions int64 }

func (s *Store) Stats() stats { return stats{s.writer.changes.Load(), s.writer.transactions.Load()} }
