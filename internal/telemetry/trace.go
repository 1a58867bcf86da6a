package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes OpenTelemetry spans of requests, tasks, turns of a model, runs and tool calls. It is passed in the context; there are no globals. A
// nil Tracer makes no spans.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	client   *client
	redact   func(string) string
}

type tracerKey struct{}

// With returns a context in which Start and similar functions make spans of this tracer.
func (t *Tracer) With(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, t)
}

// Shutdown sends the spans that have ended, until ctx ends. Spans that end later are lost.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer t.client.stop()
	return t.provider.Shutdown(ctx)
}

// End ends a span. It adds the kind of the error and the given attributes to the span.
type End func(err error, attrs ...slog.Attr)

func nothing(error, ...slog.Attr) {}

// Start begins a span, a child of the span in the context. Attributes are names, ids and counts.
func Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, End) {
	return start(ctx, trace.SpanKindInternal, name, attrs)
}

// StartRequest begins the span of an HTTP request. If the request names a span of its client (traceparent), the new span is a child of that span. route
// is the pattern that matched, without its method, or "" if none did. The caller passes the status of the response to End as the attribute
// http.response.status_code.
func StartRequest(ctx context.Context, r *http.Request, route string) (context.Context, End) {
	if t, _ := ctx.Value(tracerKey{}).(*Tracer); t == nil {
		return ctx, nothing
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	method := known(r.Method)
	return start(ctx, trace.SpanKindServer, strings.TrimSpace(method+" "+route), []slog.Attr{
		slog.String("http.request.method", method), slog.String("http.route", route),
	})
}

// traceParent is the header that names a span (W3C Trace Context).
const traceParent = "traceparent"

// Parent returns the span in the context as a text for Below, or "" if there is none.
func Parent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParent]
}

// Below returns a context whose new spans are children of the span that Parent returned as text. A text of another form changes nothing.
func Below(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: parent})
}

func start(ctx context.Context, kind trace.SpanKind, name string, attrs []slog.Attr) (context.Context, End) {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	if t == nil {
		return ctx, nothing
	}
	ctx, span := t.tracer.Start(ctx, t.redact(name), trace.WithSpanKind(kind), trace.WithAttributes(t.attributes(attrs)...))
	return ctx, func(err error, attrs ...slog.Attr) {
		span.SetAttributes(t.attributes(attrs)...)
		if err != nil {
			span.SetAttributes(attribute.String("error.type", errorType(err)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

func (t *Tracer) attributes(attrs []slog.Attr) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(attrs))
	for i, a := range attrs {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindBool:
			out[i] = attribute.Bool(a.Key, v.Bool())
		case slog.KindInt64:
			out[i] = attribute.Int64(a.Key, v.Int64())
		case slog.KindFloat64:
			out[i] = attribute.Float64(a.Key, v.Float64())
		default:
			if list, ok := v.Any().([]string); ok {
				out[i] = attribute.StringSlice(a.Key, redactAll(list, t.redact))
				continue
			}
			out[i] = attribute.String(a.Key, t.redact(v.String()))
		}
	}
	return out
}
