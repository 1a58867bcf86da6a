package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// fakeCollector stands for an OpenTelemetry collector and keeps the spans that it receives.
type fakeCollector struct {
	mu       sync.Mutex
	requests []*http.Request
	raw      []byte // bodies of all requests
	resource map[string]any
	spans    map[string]*otlp.Span                         // received spans by name
	answer   func(w http.ResponseWriter, attempt int) bool // returns false if the collector did not accept the request
}

func (c *fakeCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	c.requests = append(c.requests, r)
	if c.answer != nil && !c.answer(w, len(c.requests)) {
		return
	}
	c.raw = append(c.raw, body...)
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		panic(err)
	}
	if c.spans == nil {
		c.spans = map[string]*otlp.Span{}
	}
	for _, rs := range req.GetResourceSpans() {
		c.resource = values(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.spans[s.GetName()] = s
			}
		}
	}
}

// RoundTrip implements http.RoundTripper, for tests with a fake clock.
func (c *fakeCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result(), nil
}

func values(attrs []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range attrs {
		out[a.GetKey()] = value(a.GetValue())
	}
	return out
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		var out []any
		for _, e := range v.ArrayValue.GetValues() {
			out = append(out, value(e))
		}
		return out
	default:
		return nil
	}
}

func mustTrace(t *testing.T, o TracingOptions) *Tracer {
	t.Helper()
	tracer, err := NewTracer(o)
	if err != nil {
		t.Fatal(err)
	}
	if tracer == nil {
		t.Fatal("tracing is off")
	}
	return tracer
}
