package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/term"

	"mcp-code-exec-harness/internal/mcpclient"
)

// console is an output stream that a person may be looking at. What is written to it comes in part from programs and
// servers, so on a terminal control characters are shown instead of obeyed.
type console struct {
	raw      io.Writer
	terminal bool
	live     bool // lines can be overwritten: progress is shown
	color    bool
	failed   atomic.Pointer[error] // of the first write that did
}

func newConsole(w io.Writer, env func(string) string) *console {
	c := &console{raw: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return c
	}
	c.terminal = true
	c.live = env("TERM") != "dumb" && obeysSequences(f)
	c.color = c.live && env("NO_COLOR") == "" // https://no-color.org: any value that is not empty
	return c
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (n int, err error) {
	if c.terminal {
		n = len(p)
		_, err = io.WriteString(c.raw, visible(string(p)))
	} else {
		n, err = c.raw.Write(p)
	}
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
		return 0, err
	}
	return n, nil
}

// visible replaces what would move the cursor, change the terminal or turn the reading direction by its code.
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

// The colours of console lines: SGR codes.
const (
	red    = "31"
	yellow = "33"
)

// line writes a line in a colour, where the stream has colours; "" is none.
func (c *console) line(text, color string) {
	if c.color && color != "" {
		fmt.Fprintf(c.raw, "\x1b[%sm%s\x1b[0m\n", color, visible(text))
		return
	}
	fmt.Fprintln(c, text)
}

// width is that of the terminal in columns.
func (c *console) width() int {
	if f, ok := c.raw.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// progress shows on a terminal what is going on, once it takes longer than a second. The zero value shows nothing.
type progress struct {
	to    *console
	mu    sync.Mutex
	text  string
	shown bool
	timer *time.Timer
	began time.Time
}

// progressDelay is how long something may take before it is worth a line, and how often the line is renewed.
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
	if most := p.to.width() - len(after) - 1; len(text) > most { // a line that wraps could not be overwritten
		text = append(text[:max(most-1, 0)], '…')
	}
	fmt.Fprintf(p.to.raw, "\r\x1b[K%s%s", string(text), after)
	p.timer.Reset(progressDelay)
}

// report shows what a server says of a call under way.
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

// say changes what is shown.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// print writes a line of its own.
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

// stop ends it. It is idempotent.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.clear()
}
