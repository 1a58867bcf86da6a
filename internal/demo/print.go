package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/approval"
)

const (
	// width is the maximum number of columns of a line, minWidth the minimum.
	width    = 80
	minWidth = 50
	// At most maxCode lines of a program and maxLines lines of a text for the model are shown.
	maxCode  = 14
	maxLines = 14
	// window is the size of many models' context windows, in tokens.
	window = 200_000
)

// printer writes the demo. It keeps the first error of the writer and then writes nothing more.
type printer struct {
	out            io.Writer
	color, unicode bool
	columns        int // width of a line
	err            error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " ")+"\n")
	}
}

// pick returns the Unicode form of a sign, or the ASCII form if Unicode is off.
func (p *printer) pick(ascii, unicode string) string {
	if p.unicode {
		return unicode
	}
	return ascii
}

const (
	bold  = "1"
	dim   = "2"
	green = "32"
	red   = "31"
)

func (p *printer) paint(style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (p *printer) title(text string) {
	p.line("")
	rule := strings.Repeat(p.pick("-", "─"), max(0, p.columns-utf8.RuneCountInString(text)-4))
	p.line("%s %s %s", p.pick("--", "──"), p.paint(bold, text), rule)
}

// text writes a paragraph, wrapped at spaces.
func (p *printer) text(text string) {
	for _, l := range wrap(text, p.columns) {
		p.line("%s", l)
	}
}

func (p *printer) intro(steps int, tools []json.RawMessage) {
	p.text(fmt.Sprintf("An agent is to find our best customers and to mail one of them. It has %d tools of MCP servers, "+
		"which run as child processes; its programs run in a sandbox, behind one gate. All of that is real. What the model "+
		"says, %d programs, is a recording, so that no key and no network is needed; \"model\" stands before what it is sent.",
		len(tools), steps))
	p.line("")
	for _, l := range policy() {
		p.line("  %s %s", p.pick("|", "│"), p.paint(dim, l))
	}
}

func (p *printer) step(n, of int, s Step) {
	p.title(fmt.Sprintf("%d of %d: %s", n, of, s.Title))
	p.text(s.Explanation)
	p.line("")
	lines := strings.Split(strings.TrimRight(s.Code, "\n"), "\n")
	shown := lines
	if len(lines) > maxCode {
		shown = lines[:maxCode-1]
	}
	for _, l := range shown {
		p.line("  %s %s", p.pick("|", "│"), p.paint(dim, shorten(l, p.columns-4, p.pick("...", "…"))))
	}
	if hidden := len(lines) - len(shown); hidden > 0 {
		p.line("  %s %s", p.pick("|", "│"), p.paint(dim, fmt.Sprintf("(%d more)", hidden)))
	}
	p.line("")
}

func (p *printer) result(r Result) {
	for i := 0; i < len(r.Calls); {
		// Consecutive calls of one tool are shown as one line.
		n, sent, received := 0, 0, 0
		for ; i+n < len(r.Calls) && r.Calls[i+n].Tool == r.Calls[i].Tool; n++ {
			sent += len(r.Calls[i+n].Args)
			received += len(r.Calls[i+n].Result)
		}
		name := r.Calls[i].Tool
		if n > 1 {
			name += fmt.Sprintf(" x%d", n)
		}
		p.line("  %-8s%-*s%8s sent, %9s received", "call", min(28, p.columns-43), name, humanize.IBytes(uint64(sent)), humanize.IBytes(uint64(received)))
		i += n
	}
	p.labelled("time", milliseconds(r.Duration))
	p.read(r.Read)
}

// read shows what was sent to the model about a program.
func (p *printer) read(text string) {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var lines []string
	for i, l := range all {
		wrapped := wrapIndented(l, p.columns-10)
		if len(lines)+len(wrapped) > maxLines {
			lines = append(lines, p.paint(dim, fmt.Sprintf("(%d more)", len(all)-i)))
			break
		}
		lines = append(lines, wrapped...)
	}
	p.labelled("model", lines...)
}

// request shows the calls that wait for an approval.
func (p *printer) request(r approval.Request) {
	for _, c := range r.Calls {
		p.labelled("waits", wrapIndented(c.Tool+" "+string(c.Args), p.columns-10)...)
		p.labelled("", wrap(c.Reason, p.columns-10)...)
	}
	p.labelled("", "The run has given up its runner. Its journal waits, days if need be.")
}

// decided shows a decision.
func (p *printer) decided(approved bool, by string) {
	decision := "denied"
	if approved {
		decision = "approved"
	}
	p.labelled("decided", wrap(decision+" by "+by, p.columns-10)...)
}

// mail shows a mail that was sent.
func (p *printer) mail(to, body string) {
	lines := []string{p.paint(bold, "To: "+to)}
	for l := range strings.Lines(strings.ReplaceAll(body, "\r\n", "\n")) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, wrap(l, p.columns-10)...)
		}
	}
	p.labelled("mail", lines...)
}

func (p *printer) check(facts []fact, err error) {
	if err != nil {
		p.labelled("check", p.paint(red, "failed"))
		return
	}
	var parts []string
	for _, f := range facts {
		parts = append(parts, f.name+" "+f.value)
	}
	p.confirmed(strings.Join(parts, ", ") + ": SQL run directly says the same")
}

// confirmed shows the result of a successful check.
func (p *printer) confirmed(text string) {
	lines := wrap(text, p.columns-10)
	for i := range lines {
		lines[i] = p.paint(green, lines[i])
	}
	p.labelled("check", lines...)
}

func (p *printer) replayed(runs int, took time.Duration) {
	p.line("")
	p.confirmed(fmt.Sprintf("%d of %d runs identical, call for call; no server was asked, no mail sent twice", runs, runs))
	p.labelled("time", milliseconds(took))
}

func (p *printer) comparison(c Comparison) {
	p.title("Model tokens")
	label, number := 38, 18
	if p.columns < label+2*number+2 {
		label, number = 32, 12
	}
	row := func(name, direct, code string) { p.line("  %-*s%*s%*s", label, name, number, direct, number, code) }
	rule := func() { p.line("  %s", strings.Repeat(p.pick("-", "─"), label+2*number)) }
	comma := func(n int) string { return humanize.Comma(int64(n)) }
	row("", "direct calls", "code")
	rule()
	row("tool definitions, in every turn", comma(c.Direct.Definitions), comma(c.Code.Definitions))
	row("written by the model", comma(c.Direct.Written), comma(c.Code.Written))
	row("results read by the model", comma(c.Direct.Read), comma(c.Code.Read))
	row("context in the last turn", comma(c.Direct.Largest()), comma(c.Code.Largest()))
	row("turns", comma(c.Direct.Turns), comma(c.Code.Turns))
	rule()
	row("input over all turns", comma(c.Direct.Input), comma(c.Code.Input))
	row(difference(c), "", "")
	p.line("")
	if c.Direct.Largest() > window {
		p.text(fmt.Sprintf("The direct way does not fit into a context window of %s tokens.", humanize.Comma(window)))
	}
	p.text("Direct calls: those that the programs made, all of a program in one turn, every result as a whole in the " +
		"context of all later turns. Left out on both sides: system prompt, task, reasoning, answer. Counted with " +
		Tokenizer + ", an estimate for models with another tokenizer. A model that calls directly could let SQL add up; " +
		"not every server can.")
}

func difference(c Comparison) string {
	if c.Code.Input >= c.Direct.Input {
		return "no saving for this task"
	}
	return fmt.Sprintf("%.1f %% less", 100*(1-float64(c.Code.Input)/float64(c.Direct.Input)))
}

// labelled writes lines with a label before the first.
func (p *printer) labelled(label string, lines ...string) {
	for _, l := range lines {
		p.line("  %-8s%s", label, l)
		label = ""
	}
}

// wrap breaks text at spaces so that no line is wider than limit, unless a single word is.
func wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > limit {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// wrapIndented breaks one line so that no part is wider than limit. All parts have the line's indentation.
func wrapIndented(line string, limit int) []string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	room := max(limit-len(indent), 1)
	var lines []string
	for _, l := range wrap(text, room) {
		for runes := []rune(l); len(runes) > room; l = string(runes) {
			lines = append(lines, indent+string(runes[:room]))
			runes = runes[room:]
		}
		lines = append(lines, indent+l)
	}
	return lines
}

// shorten cuts text to one line of at most limit characters. If it cuts something off, the line ends with more.
func shorten(text string, limit int, more string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-utf8.RuneCountInString(more)]) + more
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
