package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestNewTracer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, endpoint, env string // env holds variables, separated by semicolons
		url                 string // expected address; empty if no tracer is expected
		err                 string
	}{
		{"nothing", "", "", "", ""},
		{"configured", "https://otel.example.com", "", "https://otel.example.com/v1/traces", ""},
		{"environment", "", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318", "http://localhost:4318/v1/traces", ""},
		{"with a path", "", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318/otlp/", "http://localhost:4318/otlp/v1/traces", ""},
		{"traces only", "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://localhost:4318/own;OTEL_EXPORTER_OTLP_ENDPOINT=http://other", "http://localhost:4318/own", ""},
		{"configuration first", "http://mine", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://localhost:4318/own", "http://mine/v1/traces", ""},
		{"disabled", "http://mine", "OTEL_SDK_DISABLED=true", "", ""},
		{"no exporter", "http://mine", "OTEL_TRACES_EXPORTER=none", "", ""},
		{"http", "http://mine", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "http://mine/v1/traces", ""},
		{"grpc", "http://mine", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "", "4318"},
		{"no address", "localhost:4318", "", "", "http://localhost:4318"},
		{"another scheme", "grpc://localhost:4317", "", "", "http://localhost:4318"},
		{"headers", "http://mine", "OTEL_EXPORTER_OTLP_HEADERS=SECRET", "", "name=value"},
		{"escape", "http://mine", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=SECRET%", "", "name=value"},
		{"resource", "http://mine", "OTEL_RESOURCE_ATTRIBUTES=a", "", "name=value"},
		{"timeout", "http://mine", "OTEL_EXPORTER_OTLP_TIMEOUT=10s", "", "milliseconds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tracer, err := NewTracer(TracingOptions{Endpoint: tt.endpoint, Environ: strings.Split(tt.env, ";")})
			defer tracer.Shutdown(t.Context())
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "SECRET") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tracer != nil; got != (tt.url != "") {
				t.Fatalf("tracing is on: %t", got)
			}
			if tracer != nil && tracer.client.url != tt.url {
				t.Errorf("spans go to %s", tracer.client.url)
			}
		})
	}
}

func traceOnce(ctx context.Context, tracer *Tracer, name string) {
	_, end := Start(tracer.With(ctx), name)
	end(nil)
}

func TestExportTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		begin := time.Now()
		c := &fakeCollector{answer: func(w http.ResponseWriter, attempt int) bool {
			times = append(times, time.Since(begin))
			if attempt == 1 {
				w.Header().Set("Retry-After", "7")
			}
			if attempt < 4 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return attempt == 4
		}}
		var log bytes.Buffer
		tracer := mustTrace(t, TracingOptions{
			Endpoint: "http://collector.test", Client: &http.Client{Transport: c}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		traceOnce(t.Context(), tracer, "a")
		if err := tracer.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(times) != 4 || times[1] != 7*time.Second || times[2]-times[1] < time.Second || times[3]-times[2] < 2*time.Second {
			t.Errorf("attempts at %v", times)
		}
		if c.spans["a"] == nil || log.Len() > 0 {
			t.Errorf("spans %v, log %s", c.spans, log.String())
		}
	})
}

func TestExportGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		transport http.RoundTripper
		attempts  int // expected number of attempts; 0 means several
		why       string
	}{
		"refused": {answers(http.StatusUnauthorized, nil), 1, "HTTP 401"},
		"down":    {roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }), 0, "no route"},
		"busy":    {answers(http.StatusTooManyRequests, nil), 0, "HTTP 429"},
		"silent": {roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), 0, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				attempts := 0
				count := roundTrip(func(r *http.Request) (*http.Response, error) {
					attempts++
					return tt.transport.RoundTrip(r)
				})
				tracer := mustTrace(t, TracingOptions{
					Endpoint: "http://collector.test", Client: &http.Client{Transport: count}, Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				for range 3 {
					traceOnce(t.Context(), tracer, "a")
					time.Sleep(time.Minute)
				}
				if err := tracer.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), tt.why) {
					t.Errorf("log %s", log.String())
				}
				if tt.attempts != 0 && attempts != 3*tt.attempts || tt.attempts == 0 && attempts < 3*3 {
					t.Errorf("%d attempts for 3 batches", attempts)
				}
			})
		})
	}
}

// TestShutdownIsBounded checks that a collector that does not answer cannot delay the end of the process.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		tracer := mustTrace(t, TracingOptions{Endpoint: "http://collector.test", Client: &http.Client{Transport: silent}})
		traceOnce(t.Context(), tracer, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		if err := tracer.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		synctest.Wait() // waits until the goroutines of the export have ended; otherwise synctest reports a deadlock
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestExportPartialSuccess(t *testing.T) {
	t.Parallel()
	body, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	tracer := mustTrace(t, TracingOptions{
		Endpoint: "http://collector.test", Client: &http.Client{Transport: answers(http.StatusOK, body)},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	traceOnce(t.Context(), tracer, "a")
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "refused spans") || !strings.Contains(log.String(), "spans=3") {
		t.Errorf("log %s", log.String())
	}
}

func answers(code int, body []byte) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
	}
}
