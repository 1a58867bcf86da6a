package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/run"
)

// closeTimeout is how long servers have to end after a command.
const closeTimeout = 5 * time.Second

// close ends what a command opened, also when the command was interrupted.
func (a *app) close(h *harness.Harness) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		fmt.Fprintln(a.Stderr, "harness: warning:", err)
	}
}

// path resolves a path of the command line against the working directory.
func (a *app) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.Dir, p)
}

// outcome prints how a run ended.
func (a *app) outcome(out *run.Outcome) error {
	if a.flags.JSON {
		if err := a.json(out); err != nil {
			return err
		}
	} else {
		a.printOutcome(out)
	}
	if out.Error != nil {
		return failed(exitFailed)
	}
	return nil
}

func (a *app) printOutcome(out *run.Outcome) {
	if out.Error == nil {
		fmt.Fprintln(a.Stdout, pretty(out.Output))
		return
	}
	fmt.Fprint(a.Stderr, describe(out))
}

// describe explains a failed run: what, where, what to do, and what it did to the world.
func describe(out *run.Outcome) string {
	e := out.Error
	var b strings.Builder
	name := e.Name
	if name == "" {
		name = "Error"
	}
	fmt.Fprintf(&b, "%s (%s): %s\n", name, e.Kind, e.Message)
	if e.Line > 0 {
		file := e.File
		if file == "" {
			file = "program"
		}
		fmt.Fprintf(&b, "  at %s:%d:%d\n", file, e.Line, e.Column)
		if e.Source != "" {
			fmt.Fprintf(&b, "    %s\n    %s^\n", e.Source, padding(e.Source, e.Column))
		}
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", e.Hint)
	}
	for _, effect := range out.Effects {
		fmt.Fprintf(&b, "  effect: call %d, %s %s: %s\n", effect.Call, effect.Kind, effect.Name, effect.State)
	}
	fmt.Fprintf(&b, "  run: %s\n", out.RunID)
	return b.String()
}

// padding moves a marker below a column, whatever tabs the line has.
func padding(line string, column int) string {
	var b strings.Builder
	for _, r := range line {
		if column--; column <= 0 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// pretty prints a value for people: a string as its text, anything else indented.
func pretty(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// observe shows what a run does: console lines at once, on standard error; calls as progress.
func (a *app) observe(p *progress, e run.Event) {
	switch {
	case e.Log != nil && !a.flags.JSON:
		p.print(e.Log.Text)
	case e.Call != nil:
		p.say(fmt.Sprintf("call %d: %s %s", e.Call.N, e.Call.Kind, e.Call.Name))
	}
}

// progress shows on a terminal what is going on, once it takes longer than a second.
type progress struct {
	a     *app
	mu    sync.Mutex
	text  string
	shown bool
	timer *time.Timer
	began time.Time
}

// progressDelay is how long something may take before it is worth a line.
const progressDelay = time.Second

func (a *app) progress(text string) *progress {
	p := &progress{a: a, text: text, began: time.Now()}
	if terminal(a.Stderr) {
		p.timer = time.AfterFunc(progressDelay, p.show)
	}
	return p
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.shown = true
	fmt.Fprintf(p.a.Stderr, "\r\x1b[K%s (%.0f s)", p.text, time.Since(p.began).Seconds())
	p.timer.Reset(progressDelay)
}

// say changes what is shown.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// print writes a line of its own.
func (p *progress) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.a.Stderr, line)
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.a.Stderr, "\r\x1b[K")
		p.shown = false
	}
}

func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.clear()
}

// table prints rows in columns; the last is not padded.
func (a *app) table(rows [][]string) {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len([]rune(cell))+2))
			}
		}
		fmt.Fprintln(a.Stdout, strings.TrimRight(b.String(), " "))
	}
}
