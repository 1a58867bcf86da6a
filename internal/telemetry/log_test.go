package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func jsonLines(t *testing.T, b *bytes.Buffer) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, m)
	}
	return out
}

func TestHandlerKeepsSlogsRules(t *testing.T) {
	t.Parallel()
	for name, redact := range map[string]func(string) string{"plain": nil, "redacting": hide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			log := NewLogger(LogOptions{Writer: &b, JSON: true, Redact: redact})
			if err := slogtest.TestHandler(log.Handler(), func() []map[string]any { return jsonLines(t, &b) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLogIDs(t *testing.T) {
	t.Parallel()
	ctx := WithIDs(t.Context(), "task_1", "")
	inner := WithIDs(ctx, "", "run_1")
	for name, tt := range map[string]struct {
		log  func(*slog.Logger)
		want map[string]any
	}{
		"none": {func(l *slog.Logger) { l.Info("m", "k", "v") }, map[string]any{"k": "v"}},
		"task": {func(l *slog.Logger) { l.InfoContext(ctx, "m") }, map[string]any{"task": "task_1"}},
		"both": {func(l *slog.Logger) { l.InfoContext(inner, "m", "k", "v") }, map[string]any{"task": "task_1", "run": "run_1", "k": "v"}},
		"with": {func(l *slog.Logger) { l.With("a", 1).InfoContext(inner, "m") }, map[string]any{"task": "task_1", "run": "run_1", "a": 1.0}},
		"groups": {
			func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).InfoContext(inner, "m", "k", "v") },
			map[string]any{"a": 1.0, "g": map[string]any{"task": "task_1", "run": "run_1", "b": 2.0, "k": "v"}},
		},
		"next task": {
			func(l *slog.Logger) { l.InfoContext(WithIDs(inner, "task_2", "run_2"), "m") },
			map[string]any{"task": "task_2", "run": "run_2"},
		},
	} {
		for how, redact := range map[string]func(string) string{"": nil, ", redacting": hide} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				tt.log(NewLogger(LogOptions{Writer: &b, JSON: true, Redact: redact}))
				lines := jsonLines(t, &b)
				if len(lines) != 1 {
					t.Fatalf("lines %v", lines)
				}
				for _, k := range []string{"time", "level", "msg"} {
					delete(lines[0], k)
				}
				if diff := cmp.Diff(tt.want, lines[0]); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

type address struct{ Mail string }

type valuer struct{}

func (valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("mail", "alice@example.com"), slog.Any("err", errors.New("no alice@example.com")))
}

// TestLogRedacts checks that every text in the log is redacted, however it gets there.
func TestLogRedacts(t *testing.T) {
	t.Parallel()
	const mail = "alice@example.com"
	for name, log := range map[string]func(*slog.Logger){
		"message":    func(l *slog.Logger) { l.Info("hello " + mail) },
		"value":      func(l *slog.Logger) { l.Info("m", "k", mail) },
		"error":      func(l *slog.Logger) { l.Info("m", "k", errors.Join(errors.New("a"), errors.New(mail))) },
		"list":       func(l *slog.Logger) { l.Info("m", "k", []string{"a", mail}) },
		"bytes":      func(l *slog.Logger) { l.Info("m", "k", json.RawMessage(`"`+mail+`"`)) },
		"map":        func(l *slog.Logger) { l.Info("m", "k", map[string]any{"a": []any{mail}}) },
		"struct":     func(l *slog.Logger) { l.Info("m", "k", address{mail}, "p", &address{mail}) },
		"group":      func(l *slog.Logger) { l.Info("m", slog.Group("g", slog.Group("h", "k", mail))) },
		"valuer":     func(l *slog.Logger) { l.Info("m", "k", valuer{}) },
		"with":       func(l *slog.Logger) { l.With("k", mail).Info("m") },
		"with group": func(l *slog.Logger) { l.WithGroup("g").With("k", mail, "v", valuer{}).Info("m", "k", mail) },
	} {
		for how, isJSON := range map[string]bool{"json": true, "pretty": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				log(NewLogger(LogOptions{Writer: &b, JSON: isJSON, Redact: hide}))
				if strings.Contains(b.String(), mail) || b.Len() == 0 {
					t.Errorf("the log has %q", b.String())
				}
				var plain bytes.Buffer
				log(NewLogger(LogOptions{Writer: &plain, JSON: isJSON}))
				if name != "bytes" && name != "struct" && !strings.Contains(plain.String(), mail) {
					t.Errorf("without redaction the log has %q", plain.String())
				}
			})
		}
	}
}

func TestLogRedactsTextsOnly(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := NewLogger(LogOptions{Writer: &b, JSON: true, Redact: func(string) string { return "X" }})
	log.Info("m", "int", 7, "bool", true, "float", 1.5, "duration", time.Second, "nil", nil, "text", "t")
	line := jsonLines(t, &b)[0]
	delete(line, "time")
	want := map[string]any{
		"level": "INFO", "msg": "X", "int": 7.0, "bool": true, "float": 1.5, "duration": 1e9, "nil": nil, "text": "X",
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Error(diff)
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for _, isJSON := range []bool{true, false} {
		var b bytes.Buffer
		log := NewLogger(LogOptions{Writer: &b, JSON: isJSON, Level: slog.LevelWarn})
		log.Info("quiet")
		log.With("a", 1).WithGroup("g").Info("quiet")
		log.Warn("loud")
		log.With("a", 1).WithGroup("g").Error("loud")
		if s := b.String(); strings.Contains(s, "quiet") || strings.Count(s, "loud") != 2 {
			t.Errorf("the log has %s", s)
		}
	}
}

func TestPretty(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 14, 3, 5, 0, time.Local)
	for _, tt := range []struct {
		message string
		level   slog.Level
		attrs   []slog.Attr
		want    string
	}{
		{"server is gone", slog.LevelWarn, []slog.Attr{slog.String("server", "crm"), slog.Any("error", errors.New("broken pipe"))}, `2026-11-20 14:03:05 WRN server is gone server=crm error="broken pipe"`},
		{"started", slog.LevelInfo, nil, `2026-11-20 14:03:05 INF started`},
		{"a", slog.LevelDebug, []slog.Attr{slog.Group("g", slog.Int("n", 1), slog.Group("h", slog.Bool("b", true)))}, `2026-11-20 14:03:05 DBG a g.n=1 g.h.b=true`},
		{"keys like its own", slog.LevelError, []slog.Attr{slog.String("msg", ""), slog.String("level", "INFO")}, `2026-11-20 14:03:05 ERR keys like its own msg="" level=INFO`},
		{"two\nlines\x1b[2J", slog.LevelInfo, []slog.Attr{slog.String("k", "v\nw")}, `2026-11-20 14:03:05 INF "two\nlines\x1b[2J" k="v\nw"`},
	} {
		var b bytes.Buffer
		r := slog.NewRecord(at, tt.level, tt.message, 0)
		r.AddAttrs(tt.attrs...)
		if err := NewLogger(LogOptions{Writer: &b, Level: slog.LevelDebug}).Handler().Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != tt.want+"\n" {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestPrettyWith(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	NewLogger(LogOptions{Writer: &b}).With("a", 1).WithGroup("g").With("b", 2).InfoContext(WithIDs(t.Context(), "task_1", "run_1"), "m", "c", 3)
	if _, got, _ := strings.Cut(b.String(), "INF"); got != " m a=1 g.b=2 g.c=3 g.task=task_1 g.run=run_1\n" {
		t.Errorf("got %q", b.String())
	}
}

// TestLogConcurrently checks that lines of concurrent goroutines do not mix.
func TestLogConcurrently(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer // the buffer has no lock, so the handler must have one
	log := NewLogger(LogOptions{Writer: &b, Redact: hide})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := log.With("k", "v")
			for range 100 {
				mine.InfoContext(WithIDs(t.Context(), "task_1", "run_1"), "message")
			}
		})
	}
	wg.Wait()
	n := 0
	for line := range strings.Lines(b.String()) {
		n++
		if _, rest, _ := strings.Cut(line, "INF"); rest != " message k=v task=task_1 run=run_1\n" {
			t.Fatalf("line %q", line)
		}
	}
	if n != 800 {
		t.Errorf("%d lines", n)
	}
}

func BenchmarkLog(b *testing.B) {
	var buf bytes.Buffer
	log := NewLogger(LogOptions{Writer: &buf, JSON: true, Redact: hide})
	ctx := WithIDs(b.Context(), "task_1", "run_1")
	for b.Loop() {
		buf.Reset()
		log.InfoContext(ctx, "message", "k", "v")
	}
}
