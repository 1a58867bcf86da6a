package run

import (
	"context"
	"errors"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
)

// A program sees tokens in place of personal data, but it can be written with values in it, or put them together. So what
// it sends is redacted before anything else sees it. What was recorded was redacted then: a replay compares it with
// journal.Covers and asks the filter nothing.

// redactCall takes personal data out of a new call.
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

// redactLog makes a console line the recorded one, or takes personal data out of a new one.
func (l *loop) redactLog(ctx context.Context, line *Log) (err error) {
	if recorded := l.cursor.Logs(); len(l.logs) < len(recorded) && journal.Covers(recorded[len(l.logs)].Text, line.Text) {
		line.Text = recorded[len(l.logs)].Text
		return nil
	}
	line.Text, err = l.spec.Privacy.Hide(context.WithoutCancel(ctx), pii.FromProgram, line.Text)
	return err
}

// redactOutcome takes personal data out of what a program returned or threw. If that fails, the run fails; but if the vault does not
// answer, that is the error.
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

// unredacted ends a run that sent what could not be redacted. If the vault does not answer, the run is left to be resumed.
func (l *loop) unredacted(err error) {
	if errors.Is(err, pii.ErrUnavailable) {
		l.fail(err)
		return
	}
	l.stop(l.unreadable(err))
}

// unreadable is the ending of a run that sent what could not be redacted.
func (l *loop) unreadable(err error) *Error {
	return l.explain(frame.KindCrash, "what the program sent cannot be shown: "+err.Error())
}

// diverged ends a replay that went another way. The message can name what the program sent.
func (l *loop) diverged(cause error) { l.stop(l.divergence(cause.Error())) }

func (l *loop) divergence(message string) *Error {
	redacted, err := l.spec.Privacy.Hide(context.Background(), pii.FromProgram, message)
	if err != nil {
		return l.unreadable(err)
	}
	return l.explain(frame.KindDiverged, redacted)
}
