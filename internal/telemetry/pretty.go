package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// pretty writes lines for people:
//
//	2026-11-20 14:03:05 WARN  server is gone server=crm error="EOF"
type pretty struct {
	out   *prettyOut
	attrs slog.Handler // writes the attributes into out.buf
}

// prettyOut is shared by a handler and all that With makes of it.
type prettyOut struct {
	mu  sync.Mutex
	buf bytes.Buffer
	w   io.Writer
}

// emptyRecord is how a text handler begins the record that pretty gives it: all but the attributes is left out.
const emptyRecord = `level=INFO msg=""`

func newPretty(w io.Writer, level slog.Level) *pretty {
	out := &prettyOut{w: w}
	return &pretty{out, slog.NewTextHandler(&out.buf, &slog.HandlerOptions{Level: level})}
}

// Enabled implements slog.Handler.
func (p *pretty) Enabled(ctx context.Context, level slog.Level) bool {
	return p.attrs.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (p *pretty) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &pretty{p.out, p.attrs.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (p *pretty) WithGroup(name string) slog.Handler {
	return &pretty{p.out, p.attrs.WithGroup(name)}
}

// Handle implements slog.Handler.
func (p *pretty) Handle(ctx context.Context, r slog.Record) error {
	var line bytes.Buffer
	if !r.Time.IsZero() {
		line.WriteString(r.Time.Format("2006-01-02 15:04:05 "))
	}
	fmt.Fprintf(&line, "%-5s %s", r.Level, printable(r.Message))
	r.Time, r.Level, r.Message = time.Time{}, slog.LevelInfo, ""
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	p.out.buf.Reset()
	if err := p.attrs.Handle(ctx, r); err != nil {
		return err
	}
	line.Write(bytes.TrimPrefix(p.out.buf.Bytes(), []byte(emptyRecord)))
	_, err := p.out.w.Write(line.Bytes())
	return err
}

// printable quotes a message that would not stay on its line, or do something to the terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
