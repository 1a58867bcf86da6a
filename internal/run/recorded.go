package run

import (
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// Observe calls observe with the events that an observer of the recorded run would have seen.
func Observe(records []journal.Record, observe func(Event)) {
	for _, r := range records {
		if r.Call != nil || r.Answer != nil || r.Log != nil {
			observe(Event{Call: r.Call, Answer: r.Answer, Log: r.Log})
		}
	}
}

// Abandoned returns the end record of a run whose process died and which was cancelled before it was resumed. The recorded duration lasts until the last
// record.
func Abandoned(records []journal.Record, now time.Time) *journal.End {
	end := &journal.End{Status: Cancelled, Time: now.UnixMicro()}
	var first, last int64
	for _, r := range records {
		switch {
		case r.Start != nil:
			first, last = r.Start.Time, r.Start.Time
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.Tool:
			end.Calls++
		case r.Intent != nil:
			last = max(last, r.Intent.Time)
		case r.Answer != nil:
			last = max(last, r.Answer.Now)
		}
	}
	end.DurationUS = last - first
	end.Error, _ = json.Marshal(&Error{Kind: frame.KindCancelled, Message: "the run was cancelled after the harness had stopped in the middle of it"})
	return end
}

// Recorded returns the outcome that a journal holds, or nil if the run has not ended. It executes nothing.
func Recorded(records []journal.Record) (*Outcome, error) {
	out := &Outcome{Logs: []Log{}}
	var done effects
	var end *journal.End
	for _, r := range records {
		switch {
		case r.Start != nil:
			out.RunID, out.Sandbox, out.Warnings = r.Start.Run, r.Start.Tier, r.Start.Warnings
		case r.Call != nil:
			done.made(r.Call, false)
		case r.Intent != nil:
			done.begin(r.Intent.N)
		case r.Answer != nil:
			failed, err := answerError(r.Answer)
			if err != nil {
				return nil, err
			}
			done.settle(r.Answer.N, failed)
		case r.Log != nil:
			out.Logs = append(out.Logs, *r.Log)
		case r.End != nil:
			end = r.End
		}
	}
	if end == nil {
		return nil, nil
	}
	out.Status, out.Output, out.Calls = end.Status, end.Output, end.Calls
	out.Duration = Millis(time.Duration(end.DurationUS) * time.Microsecond)
	if len(out.Output) == 0 {
		out.Output = json.RawMessage("null")
	}
	var err error
	if out.Error, err = endError(end); out.Error != nil {
		out.Effects = done.list()
	}
	return out, err
}

// answerError returns the error of a recorded answer, or nil if the answer has none.
func answerError(a *journal.Answer) (*frame.Error, error) {
	if a.Error == nil {
		return nil, nil
	}
	failed := new(frame.Error)
	if err := json.Unmarshal(a.Error, failed); err != nil {
		return nil, fmt.Errorf("read the recorded answer of call %d: %w", a.N, err)
	}
	return failed, nil
}

// endError returns the error with which a recorded run failed, or nil if the run succeeded.
func endError(end *journal.End) (*Error, error) {
	if end == nil || end.Error == nil {
		return nil, nil
	}
	failed := new(Error)
	if err := json.Unmarshal(end.Error, failed); err != nil {
		return nil, fmt.Errorf("read the recorded error: %w", err)
	}
	return failed, nil
}
