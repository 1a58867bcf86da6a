package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// How spans are sent. OpenTelemetry's own exporter is not used because it brings gRPC with it, also where it speaks HTTP: a
// program that only sends spans has 13.7 MB with it and 8.5 MB with this one.
const (
	retryFirst  = time.Second      // pause before the second attempt; doubled for each further one
	retryMost   = 15 * time.Second // pause
	complainOn  = 5 * time.Minute  // how often a collector that does not answer is logged
	maxResponse = 64 << 10         // bytes that are read of an answer
)

// exporter sends spans as OTLP over HTTP, in protobuf (opentelemetry.io/docs/specs/otlp). The SDK's batches bound what
// waits: when the collector is away for long, spans are dropped.
type exporter struct {
	url     string
	headers map[string]string
	timeout time.Duration // of one attempt
	client  *http.Client
	log     *slog.Logger

	ctx  context.Context // ends with the exporter: attempts under way too
	stop context.CancelFunc

	mu         sync.Mutex
	complained time.Time
}

var _ sdk.SpanExporter = (*exporter)(nil)

// ExportSpans implements sdk.SpanExporter. It returns no error: the SDK would give it to a global handler.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	body, err := proto.Marshal(encodeSpans(spans))
	if err == nil {
		err = e.send(ctx, body)
	}
	if err != nil {
		e.complain("traces are lost: the collector does not take them", slog.Int("spans", len(spans)), slog.Any("error", err))
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error { return nil }

// temporary is a failure after which the same spans may be sent again.
type temporary struct {
	error
	after time.Duration // as the collector asks; 0 if it does not
}

func (e *exporter) send(ctx context.Context, body []byte) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := e.attempt(ctx, body)
		var again temporary
		if !errors.As(err, &again) {
			return err
		}
		wait := max(again.after, pause/2+rand.N(pause/2))
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

func (e *exporter) attempt(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range e.headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := e.client.Do(req)
	if err != nil {
		return temporary{error: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	switch {
	case resp.StatusCode/100 == 2 && err == nil:
		e.checkPartial(answer)
		return nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return temporary{fmt.Errorf("HTTP %d", resp.StatusCode), time.Duration(seconds) * time.Second}
	default:
		return errors.Join(err, fmt.Errorf("HTTP %d", resp.StatusCode))
	}
}

// checkPartial logs what a collector took the rest but refused.
func (e *exporter) checkPartial(answer []byte) {
	var r collector.ExportTraceServiceResponse
	if proto.Unmarshal(answer, &r) == nil && r.GetPartialSuccess().GetRejectedSpans() > 0 {
		e.complain("the collector refused spans", slog.Int64("spans", r.GetPartialSuccess().GetRejectedSpans()))
	}
}

func (e *exporter) complain(message string, attrs ...slog.Attr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.complained.IsZero() && time.Since(e.complained) < complainOn {
		return
	}
	e.complained = time.Now()
	e.log.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}
