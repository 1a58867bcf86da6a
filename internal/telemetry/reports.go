package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/getsentry/sentry-go"
	"golang.org/x/time/rate"
)

// ReportOptions say where reports of errors go.
type ReportOptions struct {
	DSN     string // project's address, as Sentry and compatible services give it
	Version string // version of the harness
	// Redact changes every text on its way into a report; nil changes nothing.
	Redact func(string) string
	Client *http.Client // nil is a client of its own
}

// How many reports are sent: an error that comes again and again says nothing new.
const (
	reportsEach  = time.Minute // after the first ones, one in so long
	reportsFirst = 20
)

// Reporter sends log records of the level error to a server that speaks Sentry's protocol. A report has what the line of the log has, with
// texts hidden in the same way, and version and time: no name of the machine, no user, no environment, no stack. Sending waits for
// nothing. It is safe for concurrent use; nil reports nothing.
type Reporter struct {
	client *sentry.Client
	redact func(string) string
	pace   *rate.Limiter
	missed atomic.Int64 // records that were not sent since the last that was
}

// NewReporter returns a reporter, or nil without a DSN. It connects to nothing yet.
func NewReporter(o ReportOptions) (*Reporter, error) {
	if o.DSN == "" {
		return nil, nil
	}
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: o.DSN, Release: serviceName + "@" + o.Version, Environment: "production", ServerName: serviceName, HTTPClient: o.Client,
		SampleRate: 1, MaxBreadcrumbs: -1, DisableClientReports: true,
		Integrations: func([]sentry.Integration) []sentry.Integration { return nil }, // the default ones add environment and sources
	})
	if err != nil {
		return nil, fmt.Errorf("it is not the DSN of a project, such as https://KEY@errors.example.com/1") // err may show the key
	}
	return &Reporter{client: client, redact: o.Redact, pace: rate.NewLimiter(rate.Every(reportsEach), reportsFirst)}, nil
}

// Close sends what waits, until ctx ends.
func (r *Reporter) Close(ctx context.Context) {
	if r != nil {
		r.client.FlushWithContext(ctx)
		r.client.Close()
	}
}

// reporting is a handler that also reports.
type reporting struct {
	slog.Handler
	to    *Reporter
	group string      // group of the following attributes, with a dot at its end
	attrs []slog.Attr // attributes of With, with their groups in their names
}

// Enabled implements slog.Handler.
func (h reporting) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h reporting) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler, h.attrs = h.Handler.WithAttrs(attrs), slices.Clip(h.attrs)
	for _, a := range attrs {
		h.attrs = append(h.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return h
}

// WithGroup implements slog.Handler.
func (h reporting) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	if name != "" {
		h.group += name + "."
	}
	return h
}

// Handle implements slog.Handler.
func (h reporting) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		attrs := slices.Clip(h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			attrs = append(attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
			return true
		})
		h.to.report(r, attrs)
	}
	return h.Handler.Handle(ctx, r)
}

// report sends a record. Its message is what reports are grouped by.
func (r *Reporter) report(record slog.Record, attrs []slog.Attr) {
	if !r.pace.Allow() {
		r.missed.Add(1)
		return
	}
	event := sentry.NewEvent()
	event.Level, event.Timestamp, event.Message, event.Logger = sentry.LevelError, record.Time, record.Message, "harness"
	if r.redact != nil {
		event.Message = r.redact(record.Message)
	}
	event.Fingerprint = []string{event.Message}
	details := sentry.Context{}
	var add func(prefix string, a slog.Attr)
	add = func(prefix string, a slog.Attr) {
		a.Value = a.Value.Resolve()
		if a.Value.Kind() == slog.KindGroup {
			if a.Key != "" {
				prefix += a.Key + "."
			}
			for _, member := range a.Value.Group() {
				add(prefix, member)
			}
			return
		}
		shown := redacted(a, r.redact)
		switch {
		case shown.Key == "":
		case prefix == "" && (shown.Key == "task" || shown.Key == "run"):
			event.Tags[shown.Key] = shown.Value.String()
		default:
			details[prefix+shown.Key] = shown.Value.String()
		}
	}
	for _, a := range attrs {
		add("", a)
	}
	if n := r.missed.Swap(0); n > 0 {
		details["not reported since the last one"] = n
	}
	event.Contexts["details"] = details
	r.client.CaptureEvent(event, nil, nil)
}
