package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/term"

	"mcp-code-exec-harness/internal/mcpclient"
)

// console is an output stream. Part of the text comes from programs and servers, so on a terminal it shows control
// characters by their codes. It is safe for concurrent use: logs are written beside what a command shows.
type console struct {
	mu       sync.Mutex
	raw      io.Writer
	terminal *os.File // nil if the stream is none
	live     bool     // lines can be overwritten: progress is shown
	color    bool
	failed   atomic.Pointer[error] // of the first write that failed
}

func newConsole(w io.Writer, env func(string) string) *console {
	c := &console{raw: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return c
	}
	c.terminal = f
	c.live = env("TERM") != "dumb" && obeysSequences(f)
	c.color = c.live && env("NO_COLOR") == "" // https://no-color.org: any value that is not empty
	return c
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (n int, err error) {
	text := string(p)
	if c.terminal != nil {
		text = visible(text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err = io.WriteString(c.raw, text); err != nil {
		c.failed.CompareAndSwap(nil, &err)
		return 0, err
	}
	return len(p), nil
}

// visible replaces characters that control the terminal or the reading direction by their codes.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r) // U+FFFD for a byte that is not UTF-8
		}
	}
	return b.String()
}

// Colours: SGR codes.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	purple = "35"
)

// levelColors are the colours of console lines; the other levels have none.
var levelColors = map[string]string{"error": red, "warn": yellow}

// line writes a line in a colour, where the stream has colours; "" is none.
func (c *console) line(text, color string) {
	if c.color && color != "" {
		fmt.Fprintf(c.raw, "\x1b[%sm%s\x1b[0m\n", color, visible(text))
		return
	}
	fmt.Fprintln(c, text)
}

// clear empties a terminal, and does nothing elsewhere.
func (c *console) clear() {
	if c.live {
		c.mu.Lock()
		defer c.mu.Unlock()
		io.WriteString(c.raw, "\x1b[H\x1b[2J\x1b[3J") // where the terminal is gone, the next write says so
	}
}

// progress shows on a terminal what the command is doing, once that takes longer than a second.
type progress struct {
	to    *console
	mu    sync.Mutex
	text  string
	shown bool
	timer *time.Timer
	began time.Time
}

// progressDelay is the time before the first progress line, and between its updates.
const progressDelay = time.Second

func (a *app) progress(text string) *progress {
	p := &progress{to: a.stderr, text: text, began: time.Now()}
	if p.to.live {
		p.mu.Lock()
		defer p.mu.Unlock()
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
	after := fmt.Sprintf(" (%.0f s)", time.Since(p.began).Seconds())
	text := []rune(visible(p.text))
	columns, _, _ := term.GetSize(int(p.to.terminal.Fd()))
	if most := cmp.Or(columns, 80) - len(after) - 1; len(text) > most { // a line that wraps could not be overwritten
		text = append(text[:max(most-1, 0)], '…')
	}
	fmt.Fprintf(p.to.raw, "\r\x1b[K%s%s", string(text), after)
	p.timer.Reset(progressDelay)
}

// report shows the progress of a call that its server reports.
func (p *progress) report(call int, r mcpclient.Progress) {
	text := fmt.Sprintf("call %d: %g", call, r.Progress)
	if r.Total > 0 {
		text += fmt.Sprintf(" of %g", r.Total)
	}
	if r.Message != "" {
		text += " " + r.Message
	}
	p.say(text)
}

func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// print writes a line above the progress.
func (p *progress) print(text, color string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.to.line(text, color)
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.to.raw, "\r\x1b[K")
		p.shown = false
	}
}

// stop removes the progress line. It is idempotent.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.clear()
}

// tokens are the parts of a line of code that have a colour, in the order of tokenColors. A text or comment that goes on
// in the next line loses its colour there.
var tokens = regexp.MustCompile(`(//.*|/\*.*?(?:\*/|$))` + // comment
	`|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`(?:[^`\\\\]|\\\\.)*`?)" + // text
	`|\b(async|await|break|case|catch|class|const|continue|default|delete|do|else|export|finally|for|from|function|if|import|in|instanceof|interface|let|new|null|of|return|switch|this|throw|true|false|try|type|typeof|undefined|var|void|while|yield)\b` +
	`|\b(\d[\w.]*)\b`)

var tokenColors = []string{dim, green, purple, yellow}

// code writes a line of a program, in colours where the stream has them.
func (c *console) code(line string) {
	if !c.color {
		fmt.Fprintln(c, line)
		return
	}
	var b strings.Builder
	at := 0
	for _, m := range tokens.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(visible(line[at:m[0]]))
		for i, color := range tokenColors {
			if m[2*i+2] >= 0 {
				fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", color, visible(line[m[0]:m[1]]))
			}
		}
		at = m[1]
	}
	b.WriteString(visible(line[at:]))
	fmt.Fprintln(c.raw, b.String())
}
