package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lmittmann/tint"
)

// LogOptions shape the log.
type LogOptions struct {
	Writer io.Writer
	Level  slog.Level // the least severe one that is written
	JSON   bool       // one object a line, for programs; else lines for people
	// Redact is what every text passes on its way to the log: messages, and values that are texts or become such. Nil
	// changes nothing. It may be called from several goroutines.
	Redact func(string) string
}

// NewLogger returns a logger that adds the ids of WithIDs to what is logged with a context.
func NewLogger(o LogOptions) *slog.Logger {
	var base slog.Handler
	if o.JSON {
		base = slog.NewJSONHandler(o.Writer, &slog.HandlerOptions{Level: o.Level})
	} else {
		base = newPretty(o.Writer, o.Level)
	}
	return slog.New(&handler{root: base, current: base, redact: o.Redact})
}

// newPretty writes lines for people:
//
//	2026-11-20 14:03:05 WRN server is gone server=crm error=EOF
func newPretty(w io.Writer, level slog.Level) slog.Handler {
	return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.DateTime, NoColor: true, ReplaceAttr: printable})
}

// printable quotes a message that would not stay on its line, or do something to the terminal.
func printable(groups []string, a slog.Attr) slog.Attr {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if a.Key == slog.MessageKey && len(groups) == 0 && strings.ContainsFunc(a.Value.String(), unprintable) {
		return slog.String(a.Key, strconv.Quote(a.Value.String()))
	}
	return a
}

type idsKey struct{}

type ids struct{ task, run string }

// WithIDs returns a context whose log lines carry the ids of a task and a run. An empty id leaves the one before. They are
// made by the harness, and no redaction touches them: lines that belong together have to be found.
func WithIDs(ctx context.Context, task, run string) context.Context {
	old, _ := ctx.Value(idsKey{}).(ids)
	if task == "" {
		task = old.task
	}
	if run == "" {
		run = old.run
	}
	return context.WithValue(ctx, idsKey{}, ids{task, run})
}

func idsOf(ctx context.Context) (attrs []slog.Attr) {
	id, _ := ctx.Value(idsKey{}).(ids)
	if id.task != "" {
		attrs = append(attrs, slog.String("task", id.task))
	}
	if id.run != "" {
		attrs = append(attrs, slog.String("run", id.run))
	}
	return attrs
}

// handler adds ids and redacts. The ids stand outside of all groups, so after WithGroup they have to be there before
// the groups are: root has none of them yet, and steps makes current of it.
type handler struct {
	root, current slog.Handler
	steps         []func(slog.Handler) slog.Handler
	grouped       bool
	redact        func(string) string
}

func (h *handler) with(step func(slog.Handler) slog.Handler, group bool) *handler {
	return &handler{
		root: h.root, current: step(h.current), steps: append(slices.Clip(h.steps), step),
		grouped: h.grouped || group, redact: h.redact,
	}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.root.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	attrs = h.redactAll(attrs)
	return h.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) }, false)
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) }, true)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	next := h.current
	id := idsOf(ctx)
	if len(id) > 0 && h.grouped {
		next = h.root.WithAttrs(id)
		for _, step := range h.steps {
			next = step(next)
		}
		id = nil
	}
	if h.redact == nil {
		if len(id) > 0 {
			r = r.Clone()
			r.AddAttrs(id...)
		}
		return next.Handle(ctx, r)
	}
	out := slog.NewRecord(r.Time, r.Level, h.redact(r.Message), r.PC)
	out.AddAttrs(id...)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.redactAttr(a))
		return true
	})
	return next.Handle(ctx, out)
}

func (h *handler) redactAll(attrs []slog.Attr) []slog.Attr {
	if h.redact == nil {
		return attrs
	}
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.redactAttr(a)
	}
	return out
}

func (h *handler) redactAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.redact(v.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(h.redactAll(v.Group())...)}
	case slog.KindAny:
		switch v := v.Any().(type) {
		case nil:
			return a
		case []string:
			out := make([]string, len(v))
			for i, s := range v {
				out[i] = h.redact(s)
			}
			return slog.Any(a.Key, out)
		default: // errors above all
			return slog.String(a.Key, h.redact(fmt.Sprint(v)))
		}
	default: // numbers, booleans, times
		return a
	}
}
