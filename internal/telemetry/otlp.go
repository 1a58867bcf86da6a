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

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Settings for sending spans. OpenTelemetry's own client for HTTP is not used, because it links gRPC, which makes a program 5 MB larger.
const (
	retryFirst  = time.Second      // pause before the second attempt; it doubles with each further attempt
	retryMost   = 15 * time.Second // maximum pause between attempts
	complainOn  = 5 * time.Minute  // minimum pause between two log lines about a collector that fails
	maxResponse = 64 << 10         // maximum number of bytes that are read of an answer
)

// client sends spans as OTLP over HTTP, in protobuf (opentelemetry.io/docs/specs/otlp). The SDK limits the number of spans that wait, and drops spans
// if the collector is unavailable for long.
type client struct {
	url     string
	headers map[string]string
	timeout time.Duration // time limit of one attempt
	http    *http.Client
	log     *slog.Logger

	ctx  context.Context // ends when the client ends; attempts in flight are then cancelled
	stop context.CancelFunc

	mu         sync.Mutex
	complained time.Time
}

var _ otlptrace.Client = (*client)(nil)

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. It returns no error, because the SDK would pass it to a global handler.
func (c *client) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // same encoding as the request message of a collector
	if err == nil {
		err = c.send(ctx, body)
	}
	if err != nil {
		c.complain("traces are lost: the collector does not take them", slog.Any("error", err))
	}
	return nil
}

// temporary is an error after which the same spans may be sent again.
type temporary struct {
	error
	after time.Duration // pause that the collector asks for; 0 if none
}

func (c *client) send(ctx context.Context, body []byte) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := c.attempt(ctx, body)
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

func (c *client) attempt(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := c.http.Do(req)
	if err != nil {
		return temporary{error: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	switch {
	case resp.StatusCode/100 == 2 && err == nil:
		c.checkPartial(answer)
		return nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return temporary{fmt.Errorf("HTTP %d", resp.StatusCode), time.Duration(seconds) * time.Second}
	default:
		return errors.Join(err, fmt.Errorf("HTTP %d", resp.StatusCode))
	}
}

// checkPartial logs that a collector refused some of the spans.
func (c *client) checkPartial(answer []byte) {
	var r collector.ExportTraceServiceResponse
	if proto.Unmarshal(answer, &r) == nil && r.GetPartialSuccess().GetRejectedSpans() > 0 {
		c.complain("the collector refused spans", slog.Int64("spans", r.GetPartialSuccess().GetRejectedSpans()))
	}
}

func (c *client) complain(message string, attrs ...slog.Attr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.complained.IsZero() && time.Since(c.complained) < complainOn {
		return
	}
	c.complained = time.Now()
	c.log.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}
