package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/startup"
)

// screen is the terminal that standard output and standard error share, or a placeholder if the streams are no terminal. Below the output it can show the
// region: lines that are overwritten later.
type screen struct {
	mu     sync.Mutex // held while something is written
	to     *console   // console of the region, or nil
	region []string
	drawn  int  // lines of the region that are on the terminal
	open   bool // the last text did not end with a line end
}

// show replaces the region; without lines the region is empty. Lines must fit into the terminal.
func (s *screen) show(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.region = lines
	s.draw()
}

// draw draws the region, unless a question stands on the line where the region would begin. The caller holds mu.
func (s *screen) draw() {
	if s.to == nil || s.open || len(s.region) == 0 {
		return
	}
	s.drawn = len(s.region)
	io.WriteString(s.to.raw, strings.Join(s.region, "\n"))
}

// erase removes the region from the terminal. The caller holds mu.
func (s *screen) erase() {
	if s.drawn == 0 {
		return
	}
	up := ""
	if s.drawn > 1 {
		up = fmt.Sprintf("\x1b[%dA", s.drawn-1)
	}
	io.WriteString(s.to.raw, "\r"+up+"\x1b[J")
	s.drawn = 0
}

// console is an output stream. On a terminal it shows control characters by their codes, because part of the text comes
// from programs and servers. It is safe for concurrent use, because logs are written while a command prints.
type console struct {
	raw      io.Writer
	screen   *screen
	terminal terminal // nil if the stream is no terminal
	live     bool     // whether lines can be overwritten; progress is shown only then
	color    bool
	signs    bool                  // signs such as → are used in addition to words
	wraps    bool                  // long lines are broken at spaces
	failed   atomic.Pointer[error] // error of the first failed write
}

// terminal is a terminal that is an output stream.
type terminal interface {
	// size returns zeros if the size is not known.
	size() (columns, lines int)
	obeysSequences() bool
}

// fileTerminal is a terminal of this process.
type fileTerminal struct{ *os.File }

func (t fileTerminal) size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

func (t fileTerminal) obeysSequences() bool { return obeysSequences(t.File) }

// terminalOf returns the terminal behind a stream, or nil if the stream is no terminal.
func terminalOf(w io.Writer) terminal {
	switch w := w.(type) {
	case *os.File:
		if term.IsTerminal(int(w.Fd())) {
			return fileTerminal{w}
		}
	case remoteOutput:
		if w.stream().Terminal {
			return w
		}
	}
	return nil
}

func newConsole(w io.Writer, s *screen, env func(string) string) *console {
	c := &console{raw: w, screen: s, terminal: terminalOf(w)}
	if c.terminal == nil {
		return c
	}
	c.live = env("TERM") != "dumb" && c.terminal.obeysSequences()
	c.signs = c.live
	c.color = c.live && env("NO_COLOR") == "" // https://no-color.org: any non-empty value
	return c
}

// plain restricts the console to lines of words.
func (c *console) plain() { c.live, c.color, c.signs = false, false, false }

// width returns the number of columns of a line. 0 means no limit, for a stream that is no terminal.
func (c *console) width() int {
	if c.terminal == nil {
		return 0
	}
	columns, _ := c.terminal.size()
	if columns <= 0 {
		return 80
	}
	return columns
}

// height returns the number of lines of a terminal.
func (c *console) height() int {
	if c.terminal == nil {
		return 24
	}
	_, lines := c.terminal.size()
	if lines <= 0 {
		return 24
	}
	return lines
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (n int, err error) {
	text := string(p)
	switch {
	case c.wraps && c.terminal != nil:
		text = c.wrap(text)
	case c.terminal != nil:
		text = clip.Visible(text)
	}
	if err = c.put(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// wrap breaks the long lines of a message at spaces. Continuation lines have the indentation of their line.
func (c *console) wrap(text string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		if ansi.StringWidth(line) < c.width() {
			b.WriteString(clip.Visible(line))
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		shown := c.paragraph(indent, line[len(indent):], "")
		if !strings.HasSuffix(line, "\n") {
			shown = strings.TrimSuffix(shown, "\n")
		}
		b.WriteString(shown)
	}
	return b.String()
}

// unwrapped writes the lines of a log without breaking them, because people search and copy them.
type unwrapped struct{ c *console }

// Write implements io.Writer.
func (w unwrapped) Write(p []byte) (int, error) {
	text := string(p)
	if w.c.terminal != nil {
		text = clip.Visible(text)
	}
	return len(p), w.c.put(text)
}

// put writes a text unchanged, above the region.
func (c *console) put(text string) error {
	c.screen.mu.Lock()
	defer c.screen.mu.Unlock()
	if c.terminal != nil && text != "" {
		c.screen.erase()
		defer c.screen.draw()
		c.screen.open = !strings.HasSuffix(text, "\n")
	}
	_, err := io.WriteString(c.raw, text)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// The SGR codes of colours and styles.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	purple = "35"
)

// levelColors are the colours of console lines by level. Other levels have no colour.
var levelColors = map[string]string{"error": red, "warn": yellow}

// line writes a line in a colour, if the stream has colours; "" means no colour. Control characters are shown by their codes.
func (c *console) line(text, color string) { c.put(c.paint(clip.Visible(text), color) + "\n") }

// paragraph returns a text after a prefix, in a colour, broken into lines that fit into the terminal. All lines but the first have spaces in place
// of the prefix.
func (c *console) paragraph(prefix, text, color string) string {
	var b strings.Builder
	for i, line := range wrapped(text, c.room(prefix)) {
		if i > 0 {
			prefix = strings.Repeat(" ", ansi.StringWidth(prefix))
		}
		b.WriteString(strings.TrimRight(prefix+c.paint(line, color), " ") + "\n")
	}
	return b.String()
}

// clear clears a terminal, and does nothing on other streams.
func (c *console) clear() {
	if c.live {
		c.put("\x1b[H\x1b[2J\x1b[3J") // a missing terminal is reported by the next write
		c.screen.mu.Lock()
		defer c.screen.mu.Unlock()
		c.screen.open = false
	}
}

// room returns the number of columns of a line after a prefix. 0 means no limit.
func (c *console) room(prefix string) int {
	width := c.width()
	if width == 0 {
		return 0
	}
	return max(width-1-ansi.StringWidth(prefix), 16)
}

// unbroken replaces hyphens while a text is wrapped, so that names, paths and options are not broken.
const unbroken = "\ue000"

// wrapped returns a text in lines of at most width columns, without control characters. 0 means no limit.
func wrapped(text string, width int) []string {
	text = strings.ReplaceAll(clip.Visible(strings.TrimRight(text, "\n")), "\t", "    ")
	if width > 0 {
		text = strings.ReplaceAll(ansi.Wrap(strings.ReplaceAll(text, "-", unbroken), width, ""), unbroken, "-")
	}
	return strings.Split(text, "\n")
}

// paint returns a text in a colour, if the stream has colours.
func (c *console) paint(text, color string) string {
	if !c.color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// tokens matches the parts of a line of code that have a colour, in the order of tokenColors. If a text or comment continues on the next line, it has
// no colour there.
var tokens = startup.Regexp(`(//.*|/\*.*?(?:\*/|$))` + // comment
	`|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`(?:[^`\\\\]|\\\\.)*`?)" + // text
	`|\b(async|await|break|case|catch|class|const|continue|default|delete|do|else|export|finally|for|from|function|if|import|in|instanceof|interface|let|new|null|of|return|switch|this|throw|true|false|try|type|typeof|undefined|var|void|while|yield)\b` +
	`|\b(\d[\w.]*)\b`)

var tokenColors = []string{dim, green, purple, yellow}

// code returns a line of a program, in colours if the stream has them.
func (c *console) code(line string) string {
	if !c.color {
		return clip.Visible(line)
	}
	var b strings.Builder
	at := 0
	for _, m := range tokens().FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(clip.Visible(line[at:m[0]]))
		for i, color := range tokenColors {
			if m[2*i+2] >= 0 {
				b.WriteString(c.paint(clip.Visible(line[m[0]:m[1]]), color))
			}
		}
		at = m[1]
	}
	b.WriteString(clip.Visible(line[at:]))
	return b.String()
}
