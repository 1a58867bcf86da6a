package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// TestTraceOfARequest checks the spans of a whole request: each is a child of the one before.
func TestTraceOfARequest(t *testing.T) {
	t.Parallel()
	c := &fakeCollector{}
	server := httptest.NewServer(c)
	defer server.Close()
	tracer := mustTrace(t, TracingOptions{
		Version: "1.2.3",
		Environ: []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS=x-api-key=a%20b, x-team = core",
			"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,service.name=theirs", "OTEL_SERVICE_NAME=mine", "PATH=/bin",
		},
	})

	const secret = "alice@example.com asked"
	r := httptest.NewRequest(http.MethodPost, "/v1/tasks?q="+hex.EncodeToString([]byte(secret)), nil)
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	ctx, endRequest := StartRequest(tracer.With(t.Context()), r, "/v1/tasks")
	var parent string
	work := ObserveWorker(func(ctx context.Context, tk task.Task, _ []task.Past, _ []task.Step, _ task.Log) (task.Task, error) {
		ctxModel, endModel := StartModel(ctx, model.Info{Provider: model.Anthropic, Name: "claude"})
		if ctxModel == ctx {
			t.Error("the model's span is not in its context")
		}
		endModel(&model.Turn{
			Text: secret, Stop: model.StopTools, Usage: model.Usage{Input: 100, Output: 7}, Calls: []model.ToolCall{{ID: "1", Input: []byte(`"` + secret + `"`)}},
		}, nil)
		ctx, endRun := StartRun(ctx, "run_1")
		ctx, endTool := StartTool(ctx, "crm__search", 3)
		parent = Parent(ctx)
		endTool(&frame.Error{Kind: frame.KindTool, Message: secret})
		endRun(&run.Outcome{Status: run.Failed, Calls: 1, Sandbox: "wasm", Error: &run.Error{Kind: frame.KindTool, Message: secret}})
		tk.Status, tk.Usage.Turns, tk.Usage.Runs, tk.Text = task.Succeeded, 2, 1, secret
		return tk, nil
	})
	_, _ = work(ctx, task.Task{ID: "task_1", SessionID: "sess_1", UserID: "alice", Task: secret}, nil, nil, nil)
	endRequest(nil, slog.Int("http.response.status_code", 200))
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	type span struct {
		Parent string // name of the parent span, or its id if it belongs to another process
		Kind   otlp.Span_SpanKind
		Failed bool
		Attrs  map[string]any
	}
	want := map[string]span{
		"POST /v1/tasks": {"b7ad6b7169203331", otlp.Span_SPAN_KIND_SERVER, false, map[string]any{
			"http.request.method": "POST", "http.route": "/v1/tasks", "http.response.status_code": int64(200),
		}},
		"task": {"POST /v1/tasks", otlp.Span_SPAN_KIND_INTERNAL, false, map[string]any{
			"harness.task.id": "task_1", "harness.session.id": "sess_1", "harness.status": "succeeded", "harness.turns": int64(2), "harness.runs": int64(1),
		}},
		"chat claude": {"task", otlp.Span_SPAN_KIND_CLIENT, false, map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude",
			"gen_ai.usage.input_tokens": int64(100), "gen_ai.usage.output_tokens": int64(7), "gen_ai.response.finish_reasons": []any{"tool_call"},
			"harness.model.calls": int64(1),
		}},
		"run": {"task", otlp.Span_SPAN_KIND_INTERNAL, true, map[string]any{
			"harness.run.id": "run_1", "harness.status": "failed", "harness.calls": int64(1), "harness.sandbox": "wasm", "error.type": "tool",
		}},
		"execute_tool crm__search": {"run", otlp.Span_SPAN_KIND_CLIENT, true, map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "crm__search", "harness.call": int64(3), "error.type": "tool",
		}},
	}
	names := map[string]string{}
	for name, s := range c.spans {
		names[hex.EncodeToString(s.GetSpanId())] = name
	}
	got := map[string]span{}
	for name, s := range c.spans {
		parent := hex.EncodeToString(s.GetParentSpanId())
		if of, ok := names[parent]; ok {
			parent = of
		}
		got[name] = span{parent, s.GetKind(), s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, values(s.GetAttributes())}
		if id := hex.EncodeToString(s.GetTraceId()); id != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of trace %s", name, id)
		}
		if s.GetStartTimeUnixNano() == 0 || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s lasts from %d to %d", name, s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		}
		wantFlags := uint32(0x101)
		if name == "POST /v1/tasks" {
			wantFlags = 0x301
		}
		if s.GetFlags() != wantFlags {
			t.Errorf("%s has flags %x", name, s.GetFlags())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{
		"service.name": "mine", "service.version": "1.2.3", "deployment.environment.name": "test",
	}, c.resource); diff != "" {
		t.Error(diff)
	}
	if bytes.Contains(c.raw, []byte("alice")) {
		t.Errorf("the collector was told %q", c.raw)
	}
	wantParent := "00-0af7651916cd43dd8448eb211c80319c-" + hex.EncodeToString(c.spans["execute_tool crm__search"].GetSpanId()) + "-01"
	if parent != wantParent {
		t.Errorf("traceparent %s, want %s", parent, wantParent)
	}
	h := c.requests[0]
	if h.URL.Path != "/v1/traces" || h.Header.Get("Content-Type") != "application/x-protobuf" || h.Header.Get("x-api-key") != "a b" || h.Header.Get("x-team") != "core" {
		t.Errorf("POST %s %v", h.URL.Path, h.Header)
	}
}

func TestTraceRedacts(t *testing.T) {
	t.Parallel()
	c := &fakeCollector{}
	tracer := mustTrace(t, TracingOptions{Endpoint: "http://collector.test:4318", Client: &http.Client{Transport: c}, Redact: hide})
	_, end := Start(tracer.With(t.Context()), "for alice@example.com", slog.String("who", "alice@example.com"), slog.Any("list", []string{"alice@example.com"}))
	end(nil, slog.Any("what", fmt.Errorf("of alice@example.com")), slog.Bool("b", true), slog.Float64("f", 1.5), slog.String("bad", "\xff"))
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"who": "[EMAIL_1]", "list": []any{"[EMAIL_1]"}, "what": "of [EMAIL_1]", "b": true, "f": 1.5, "bad": "\uFFFD"}
	if diff := cmp.Diff(want, values(c.spans["for [EMAIL_1]"].GetAttributes())); diff != "" {
		t.Error(diff)
	}
}

func TestErrorType(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"overloaded": fmt.Errorf("a: %w", &model.Error{Kind: model.KindOverloaded}),
		"budget":     fmt.Errorf("a: %w", &task.Error{Kind: task.KindBudget}),
		"denied":     &frame.Error{Kind: frame.KindDenied},
		"cancelled":  fmt.Errorf("a: %w", context.Canceled),
		"timeout":    context.DeadlineExceeded,
		"_OTHER":     errors.New("alice@example.com"),
	} {
		if got := errorType(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestNoTracer(t *testing.T) {
	t.Parallel()
	var tracer *Tracer
	ctx := tracer.With(t.Context())
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx, endRequest := StartRequest(ctx, r, "/")
	ctx, endTask := Start(ctx, "task")
	ctx, endModel := StartModel(ctx, model.Info{})
	ctx, endRun := StartRun(ctx, "run_1")
	ctx, endTool := StartTool(ctx, "crm__search", 1)
	parent := Parent(ctx)
	endTool(nil)
	endRun(nil)
	endModel(nil, errors.New("x"))
	endTask(nil)
	endRequest(nil)
	if ctx != t.Context() || parent != "" {
		t.Errorf("without a tracer there is %v", parent)
	}
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkStartWithoutTracer(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		_, end := StartTool(ctx, "crm__search", 1)
		end(nil)
	}
}
