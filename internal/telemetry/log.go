package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lmittmann/tint"
)

// LogOptions configures the log.
type LogOptions struct {
	Writer io.Writer
	Level  slog.Level // minimum level of the records that are written
	JSON   bool       // whether each line is a JSON object, for programs; if not, lines are written for people
	// Redact changes every text on its way to the log; nil changes nothing. It must be safe for concurrent use.
	Redact func(string) string
	// Report also gets the records of level error; it may be nil.
	Report *Reporter
}

// NewLogger returns a logger that adds the ids of WithIDs to records that are logged with a context. Lines for people
// look like this:
//
//	2026-11-20 14:03:05 WRN server is gone server=crm error=EOF
func NewLogger(o LogOptions) *slog.Logger {
	redact := func(_ []string, a slog.Attr) slog.Attr { return redacted(a, o.Redact) }
	if o.JSON {
		return slog.New(o.handler(slog.NewJSONHandler(o.Writer, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: redact})))
	}
	return slog.New(o.handler(tint.NewTextHandler(o.Writer, &tint.Options{
		Level: o.Level, TimeFormat: time.DateTime, NoColor: true,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr { return printable(groups, redact(groups, a)) },
	})))
}

func (o LogOptions) handler(h slog.Handler) slog.Handler {
	if o.Report != nil {
		h = reporting{Handler: h, to: o.Report}
	}
	return handler{h}
}

// printable quotes a message if it has characters that end a line or control a terminal.
func printable(groups []string, a slog.Attr) slog.Attr {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if a.Key == slog.MessageKey && len(groups) == 0 && strings.ContainsFunc(a.Value.String(), unprintable) {
		return slog.String(a.Key, strconv.Quote(a.Value.String()))
	}
	return a
}

// redacted returns an attribute, other than a group, with its texts redacted. Numbers, booleans, times, levels and ids stay unchanged.
func redacted(a slog.Attr, redact func(string) string) slog.Attr {
	text := a.Value
	if text.Kind() == slog.KindAny {
		switch v := text.Any().(type) {
		case loggedID:
			return slog.String(a.Key, string(v))
		case nil, slog.Level:
			return a
		case []string:
			return slog.Any(a.Key, redactAll(v, redact))
		}
		if redact != nil { // mainly errors
			text = slog.StringValue(fmt.Sprint(text.Any()))
		}
	}
	if redact == nil || text.Kind() != slog.KindString {
		return a
	}
	return slog.String(a.Key, redact(text.String()))
}

func redactAll(texts []string, redact func(string) string) []string {
	if redact == nil {
		return texts
	}
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = redact(s)
	}
	return out
}

type idsKey struct{}

type ids struct{ task, run loggedID }

// loggedID is an id that the harness has made. It is not redacted, so that lines which belong together can be found.
type loggedID string

// WithIDs returns a context whose log lines carry the ids of a task and a run. An empty id keeps the previous one.
func WithIDs(ctx context.Context, task, run string) context.Context {
	old, _ := ctx.Value(idsKey{}).(ids)
	return context.WithValue(ctx, idsKey{}, ids{cmp.Or(loggedID(task), old.task), cmp.Or(loggedID(run), old.run)})
}

// handler adds the ids of the context to records.
type handler struct{ slog.Handler }

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	id, _ := ctx.Value(idsKey{}).(ids)
	if id != (ids{}) {
		r = r.Clone()
	}
	if id.task != "" {
		r.AddAttrs(slog.Any("task", id.task))
	}
	if id.run != "" {
		r.AddAttrs(slog.Any("run", id.run))
	}
	return h.Handler.Handle(ctx, r)
}
