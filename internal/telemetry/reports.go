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

// ReportOptions configures the reports of errors.
type ReportOptions struct {
	DSN     string // address of the project, as Sentry and compatible services give it
	Version string // version of the harness
	// Redact changes every text on its way into a report; nil changes nothing.
	Redact func(string) string
	Client *http.Client // client for sending reports; may be nil
}

// Limits of the number of reports, because a repeated error says nothing new.
const (
	reportsEach  = time.Minute // interval between two reports after the first reportsFirst ones
	reportsFirst = 20
)

// Reporter sends log records of level error to a server that speaks Sentry's protocol. A report contains the same as the line in the log, with texts
// redacted in the same way, and the version and the time. It contains no name of the machine, no user, no environment and no stack. Logging does not
// wait for reports to be sent. A Reporter is safe for concurrent use; a nil Reporter reports nothing.
type Reporter struct {
	client *sentry.Client
	redact func(string) string
	pace   *rate.Limiter
	missed atomic.Int64 // number of records that were not sent since the last report
}

// NewReporter returns a reporter, or nil without a DSN. It does not connect yet.
func NewReporter(o ReportOptions) (*Reporter, error) {
	if o.DSN == "" {
		return nil, nil
	}
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: o.DSN, Release: serviceName + "@" + o.Version, Environment: "production", ServerName: serviceName, HTTPClient: o.Client,
		SampleRate: 1, MaxBreadcrumbs: -1, DisableClientReports: true,
		Integrations: func([]sentry.Integration) []sentry.Integration { return nil }, // the default integrations add environment and sources
	})
	if err != nil {
		return nil, fmt.Errorf("it is not the DSN of a project, such as https://KEY@errors.example.com/1") // err may show the key
	}
	return &Reporter{client: client, redact: o.Redact, pace: rate.NewLimiter(rate.Every(reportsEach), reportsFirst)}, nil
}

// Close sends the reports that wait, until ctx ends.
func (r *Reporter) Close(ctx context.Context) {
	if r != nil {
		r.client.FlushWithContext(ctx)
		r.client.Close()
	}
}

// reporting is a handler that also passes records to a Reporter.
type reporting struct {
	slog.Handler
	to    *Reporter
	group string      // groups of the following attributes, with a dot at the end
	attrs []slog.Attr // attributes that With added; their names contain their groups
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

// report sends a record. The server groups reports by their message.
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
