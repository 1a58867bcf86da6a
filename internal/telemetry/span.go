package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// ObserveWorker returns a worker that calls work in a span for the task, a child of the span of the request, and adds the task's id to the log.
func ObserveWorker(work task.Worker) task.Worker {
	return func(ctx context.Context, t task.Task, history []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
		ctx, end := Start(Below(WithIDs(ctx, t.ID, ""), t.Trace), "task",
			slog.String("harness.task.id", t.ID), slog.String("harness.session.id", t.SessionID))
		ended, err := work(ctx, t, history, steps, log)
		var failed error
		if ended.Error != nil {
			failed = ended.Error
		}
		end(failed, slog.String("harness.status", string(ended.Status)), slog.Int("harness.turns", ended.Usage.Turns),
			slog.Int("harness.runs", ended.Usage.Runs))
		return ended, err
	}
}

// StartRun begins the span of a run. The returned function ends the span with the outcome, which is nil if the harness failed to execute the run.
func StartRun(ctx context.Context, runID string) (context.Context, func(*run.Outcome)) {
	ctx, end := Start(ctx, "run", slog.String("harness.run.id", runID))
	return ctx, func(out *run.Outcome) {
		if out == nil {
			end(errors.New("no outcome"))
			return
		}
		var err error
		if out.Error != nil {
			err = &frame.Error{Kind: out.Error.Kind}
		}
		end(err, slog.String("harness.status", out.Status), slog.Int("harness.calls", out.Calls), slog.String("harness.sandbox", out.Sandbox))
	}
}

// StartModel begins the span of a model's turn. It follows OpenTelemetry's conventions for generative AI; the names used here have been the same
// since version 1.37 (opentelemetry.io/docs/specs/semconv/gen-ai).
func StartModel(ctx context.Context, info model.Info) (context.Context, func(*model.Turn, error)) {
	ctx, end := start(ctx, trace.SpanKindClient, "chat "+info.Name, []slog.Attr{
		slog.String("gen_ai.operation.name", "chat"), slog.String("gen_ai.provider.name", genAIProvider(info.Provider)),
		slog.String("gen_ai.request.model", info.Name),
	})
	return ctx, func(turn *model.Turn, err error) {
		if turn == nil {
			end(err)
			return
		}
		end(err, slog.Int("gen_ai.usage.input_tokens", turn.Usage.Input), slog.Int("gen_ai.usage.output_tokens", turn.Usage.Output),
			slog.Any("gen_ai.response.finish_reasons", []string{finishReason(turn.Stop)}), slog.Int("harness.model.calls", len(turn.Calls)))
	}
}

// finishReason returns OpenTelemetry's term for the reason why a turn ended.
func finishReason(s model.Stop) string {
	switch s {
	case model.StopTools:
		return "tool_call"
	case model.StopLength:
		return "length"
	case model.StopRefusal:
		return "content_filter"
	default:
		return "stop"
	}
}

// genAIProvider returns OpenTelemetry's name of a provider.
func genAIProvider(name string) string {
	switch name {
	case model.Azure:
		return "azure.ai.openai"
	case model.Google:
		return "gcp.gemini"
	default:
		return name
	}
}

// StartTool begins the span of a tool call. number is the number of the host call in its run.
func StartTool(ctx context.Context, tool string, number int) (context.Context, End) {
	return start(ctx, trace.SpanKindClient, "execute_tool "+tool, []slog.Attr{
		slog.String("gen_ai.operation.name", "execute_tool"), slog.String("gen_ai.tool.name", tool), slog.Int("harness.call", number),
	})
}

// otherError is OpenTelemetry's term for an error of an unknown kind.
const otherError = "_OTHER"

// errorType returns the kind of an error for the attribute error.type. It does not return the text of the error, which can contain anything.
func errorType(err error) string {
	var ofModel *model.Error
	var ofTask *task.Error
	var ofCall *frame.Error
	switch {
	case errors.As(err, &ofModel):
		return string(ofModel.Kind)
	case errors.As(err, &ofTask):
		return ofTask.Kind
	case errors.As(err, &ofCall):
		return ofCall.Kind
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	default:
		return otherError
	}
}
