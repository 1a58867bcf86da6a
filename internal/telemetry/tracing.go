package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// TracingOptions configures where spans are sent.
type TracingOptions struct {
	// Endpoint is the collector's address for OTLP over HTTP, without path ("http://localhost:4318"). If it is empty, Environ decides.
	Endpoint string
	// Environ lists environment variables as NAME=value, like os.Environ. These variables of OpenTelemetry are read, each also in its TRACES form if it
	// has one: OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT
	// and _PROTOCOL. The SDK reads the settings of samplers, limits and batches from the environment of the process.
	Environ []string
	Version string // version of the harness
	Log     *slog.Logger
	Client  *http.Client // client for requests to the collector; may be nil
	// Redact changes names and attributes that are texts; nil changes nothing.
	Redact func(string) string
}

const serviceName = "mcp-code-exec-harness"

// NewTracer returns a tracer, or nil if no collector is configured. It does not connect yet.
func NewTracer(o TracingOptions) (*Tracer, error) {
	env := variables(o.Environ)
	if env["OTEL_SDK_DISABLED"] == "true" || env["OTEL_TRACES_EXPORTER"] == "none" {
		return nil, nil
	}
	c, err := newClient(o, env)
	if c == nil || err != nil {
		return nil, err
	}
	attrs := []attribute.KeyValue{attribute.String("service.name", serviceName), attribute.String("service.version", o.Version)}
	given, err := pairs(env["OTEL_RESOURCE_ATTRIBUTES"])
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	for k, v := range given {
		attrs = append(attrs, attribute.String(k, v))
	}
	if name := env["OTEL_SERVICE_NAME"]; name != "" {
		attrs = append(attrs, attribute.String("service.name", name)) // the last of several attributes with the same name counts
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	t := &Tracer{client: c, redact: func(s string) string {
		if o.Redact != nil {
			s = o.Redact(s)
		}
		return strings.ToValidUTF8(s, "\uFFFD")
	}}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(otlptrace.NewUnstarted(c)), sdk.WithResource(resource.NewSchemaless(attrs...)))
	t.tracer = t.provider.Tracer(serviceName)
	return t, nil
}

// newClient returns a client, or nil if no address is configured.
func newClient(o TracingOptions, env map[string]string) (*client, error) {
	setting := func(name string) string {
		return cmp.Or(env["OTEL_EXPORTER_OTLP_TRACES_"+name], env["OTEL_EXPORTER_OTLP_"+name])
	}
	var address string
	switch base := cmp.Or(o.Endpoint, env["OTEL_EXPORTER_OTLP_ENDPOINT"]); {
	case o.Endpoint == "" && env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != "":
		address = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] // used unchanged
	case base != "":
		address = strings.TrimSuffix(base, "/") + "/v1/traces"
	default:
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the endpoint of the trace collector is no address; write it as http://localhost:4318")
	}
	if p := setting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: only http/protobuf is spoken here; set it, and the port to the collector's for HTTP, usually 4318", p)
	}
	headers, err := pairs(setting("HEADERS"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	timeout := 10 * time.Second // the specification's default
	if v := setting("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms < 1 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%s: write a number of milliseconds", v)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	return &client{
		url: address, headers: headers, timeout: timeout,
		http: cmp.Or(o.Client, &http.Client{}), log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}, nil
}

func variables(environ []string) map[string]string {
	out := map[string]string{}
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, "OTEL_") {
			out[name] = strings.ToValidUTF8(strings.TrimSpace(value), "\uFFFD")
		}
	}
	return out
}

// pairs reads "name=value,name=value" with percent-encoded values. The error contains no names and no values.
func pairs(s string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || name == "" || err != nil {
			return nil, errors.New("write it as name=value,name=value with percent-encoded values")
		}
		out[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return out, nil
}
