package telemetry

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// encodeSpans makes a request of spans, which are all of one resource and one scope: those of the Tracer. Events and links
// are left out, for it makes none.
func encodeSpans(spans []sdk.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	out := make([]*otlp.Span, len(spans))
	for i, s := range spans {
		out[i] = encodeSpan(s)
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*otlp.ResourceSpans{{
		Resource: &resource.Resource{Attributes: encodeAttributes(spans[0].Resource().Attributes())},
		ScopeSpans: []*otlp.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: spans[0].InstrumentationScope().Name},
			Spans: out,
		}},
	}}}
}

func encodeSpan(s sdk.ReadOnlySpan) *otlp.Span {
	id, span, parent := s.SpanContext().TraceID(), s.SpanContext().SpanID(), s.Parent().SpanID()
	out := &otlp.Span{
		TraceId: id[:], SpanId: span[:], TraceState: s.SpanContext().TraceState().String(), Flags: flags(s),
		Name: s.Name(), Kind: kinds[s.SpanKind()],
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: encodeAttributes(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
		Status: &otlp.Status{},
	}
	if parent.IsValid() {
		out.ParentSpanId = parent[:]
	}
	if s.Status().Code == codes.Error {
		out.Status.Code = otlp.Status_STATUS_CODE_ERROR
	}
	return out
}

var kinds = map[trace.SpanKind]otlp.Span_SpanKind{
	trace.SpanKindInternal: otlp.Span_SPAN_KIND_INTERNAL,
	trace.SpanKindServer:   otlp.Span_SPAN_KIND_SERVER,
	trace.SpanKindClient:   otlp.Span_SPAN_KIND_CLIENT,
}

// flags are those of the trace context, and whether the parent is of another process.
func flags(s sdk.ReadOnlySpan) uint32 {
	f := uint32(s.SpanContext().TraceFlags()) | uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if s.Parent().IsRemote() {
		f |= uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
}

func encodeAttributes(attrs []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, len(attrs))
	for i, a := range attrs {
		out[i] = &common.KeyValue{Key: string(a.Key), Value: encodeValue(a.Value)}
	}
	return out
}

// encodeValue knows the types that Tracer.attributes makes.
func encodeValue(v attribute.Value) *common.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	case attribute.STRINGSLICE:
		list := &common.ArrayValue{}
		for _, s := range v.AsStringSlice() {
			list.Values = append(list.Values, encodeString(s))
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
	default:
		return encodeString(v.AsString())
	}
}

func encodeString(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(s, "\uFFFD")}}
}
