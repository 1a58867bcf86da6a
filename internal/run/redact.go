package run

import (
	"context"
	"errors"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
)

// A program sees tokens in place of personal data, but its code may contain personal data or compose it. So everything that
// it sends is redacted before anything else sees it. Recorded data is already redacted: a replay compares it with
// journal.Covers and does not use the filter.

// redactCall hides personal data in a new call.
func (l *loop) redactCall(ctx context.Context, c *journal.Call) (err error) {
	ctx = context.WithoutCancel(ctx)
	if c.Name, err = l.spec.Privacy.Hide(ctx, pii.FromProgram, c.Name); err != nil {
		return err
	}
	if c.Kind == string(frame.FS) {
		c.Args, err = l.spec.Privacy.HideFile(ctx, pii.FromProgram, c.Args)
	} else {
		c.Args, err = l.spec.Privacy.HideJSON(ctx, pii.FromProgram, c.Args)
	}
	return err
}

// redactLog replaces a console line by the recorded one, or hides personal data in a new line.
func (l *loop) redactLog(ctx context.Context, line *Log) (err error) {
	if recorded := l.cursor.Logs(); len(l.logs) < len(recorded) && journal.Covers(recorded[len(l.logs)].Text, line.Text) {
		line.Text = recorded[len(l.logs)].Text
		return nil
	}
	line.Text, err = l.spec.Privacy.Hide(context.WithoutCancel(ctx), pii.FromProgram, line.Text)
	return err
}

// redactOutcome hides personal data in what a program returned or threw. If redacting fails, the run fails. If the vault does not
// answer, redactOutcome returns an error that wraps pii.ErrUnavailable.
func (l *loop) redactOutcome(out *Outcome) error {
	ctx, p := context.Background(), l.spec.Privacy
	output, err := p.HideJSON(ctx, pii.FromProgram, out.Output)
	if e := out.Error; e != nil {
		for _, text := range []*string{&e.Name, &e.Message, &e.Source, &e.Stack, &e.Hint, &e.Tool} {
			if err == nil {
				*text, err = p.Hide(ctx, pii.FromProgram, *text)
			}
		}
		if err == nil {
			e.Data, err = p.HideJSON(ctx, pii.FromProgram, e.Data)
		}
	}
	if errors.Is(err, pii.ErrUnavailable) {
		return err
	}
	if out.Output = output; err != nil {
		out.fail(l.unreadable(err))
	}
	return nil
}

// unredacted ends a run because data that it sent could not be redacted. If the vault does not answer, the run is left to be resumed.
func (l *loop) unredacted(err error) {
	if errors.Is(err, pii.ErrUnavailable) {
		l.fail(err)
		return
	}
	l.stop(l.unreadable(err))
}

// unreadable returns the error with which a run ends if it sent data that could not be redacted.
func (l *loop) unreadable(err error) *Error {
	return l.explain(frame.KindCrash, "what the program sent cannot be shown: "+err.Error())
}

// diverged ends a replay that diverged from the recorded run. The message may contain what the program sent.
func (l *loop) diverged(cause error) {
	l.showDivergence(cause)
	l.stop(l.divergence(cause.Error()))
}

// showDivergence calls Spec.Diverged with the calls of a DivergedError. If the call of the program cannot be redacted, it is left out.
func (l *loop) showDivergence(cause error) {
	diverged, ok := errors.AsType[*journal.DivergedError](cause)
	if !ok || l.spec.Diverged == nil {
		return
	}
	shown := *diverged
	if shown.Got != nil {
		got := *shown.Got
		if shown.Got = &got; l.redactCall(context.Background(), &got) != nil {
			shown.Got = &journal.Call{N: got.N, Kind: got.Kind}
		}
	}
	l.spec.Diverged(&shown)
}

func (l *loop) divergence(message string) *Error {
	redacted, err := l.spec.Privacy.Hide(context.Background(), pii.FromProgram, message)
	if err != nil {
		return l.unreadable(err)
	}
	return l.explain(frame.KindDiverged, redacted)
}
