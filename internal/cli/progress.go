package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
)

const (
	// progressDelay is the time after which a terminal shows progress.
	progressDelay = 300 * time.Millisecond
	// progressTick is the interval at which progress is redrawn.
	progressTick = 100 * time.Millisecond
	// plainDelay is the time after which plain output has a line about the progress. The interval doubles with each further line.
	plainDelay = 10 * time.Second
)

var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// progress shows on a terminal what a command is waiting for: as a line with a spinner below all output, or, in plain output, as a line
// from time to time. Its methods are safe for concurrent use.
type progress struct {
	to   *console
	lead func(width int) []string // returns lines above the line with the spinner; may be nil. Called without mu
	done chan struct{}
	end  sync.WaitGroup

	mu    sync.Mutex
	text  string
	since time.Time // time at which text was set
	part  string    // how much of the work is done
	extra string    // text after the time
}

// progress shows what the command is waiting for. The caller calls stop.
func (a *app) progress(text string) *progress { return a.progressOf(text, nil) }

// progressOf does the same as progress, with further lines above the line with the spinner.
func (a *app) progressOf(text string, lead func(width int) []string) *progress {
	p := &progress{to: a.stderr, lead: lead, done: make(chan struct{}), text: text, since: time.Now()}
	if p.to.terminal != nil && !a.flags.JSON || p.to.live {
		p.end.Go(p.show)
	}
	return p
}

// show redraws the progress until it is stopped.
func (p *progress) show() {
	wait, frame := progressDelay, 0
	if !p.to.live {
		wait = plainDelay
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-p.done:
			p.to.screen.show(nil)
			return
		case <-timer.C:
		}
		if p.to.live {
			p.to.screen.show(p.picture(frame, p.to.width()-1))
			frame++
			timer.Reset(progressTick)
			continue
		}
		if text, after := p.about(); text != "" && after >= plainDelay/2 {
			p.to.line("still "+text, "")
		}
		wait *= 2
		timer.Reset(wait)
	}
}

func (p *progress) about() (text string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after = time.Since(p.since)
	if p.text == "" {
		return "", after
	}
	text = p.text + fmt.Sprintf(" (%.0f s)", after.Seconds())
	for _, more := range []string{p.part, p.extra} {
		if more != "" {
			text += ", " + more
		}
	}
	return text, after
}

// picture returns the lines to show on a terminal with the given number of columns.
func (p *progress) picture(frame, width int) (lines []string) {
	if p.lead != nil {
		lines = p.lead(width)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		return lines
	}
	text := p.text
	if p.part != "" {
		text += " " + p.part
	}
	if after := time.Since(p.since); after >= time.Second {
		text += fmt.Sprintf(" (%.0f s)", after.Seconds())
	}
	if p.extra != "" {
		text += " · " + p.extra
	}
	spin := p.to.paint(spinner[frame%len(spinner)], blue)
	return append(lines, ansi.Truncate(spin+" "+clip.Visible(text), width, "…"))
}

// say replaces the text.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != text {
		p.text, p.since, p.part = text, time.Now(), ""
	}
}

// did sets how much of the work is done.
func (p *progress) did(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = part
}

// add sets the text after the time.
func (p *progress) add(extra string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = extra
}

// reported returns progress as text. If the total is known and the stream has signs, the text has a bar.
func (c *console) reported(r mcpclient.Progress) string {
	text := fmt.Sprintf("%g", r.Progress)
	if r.Total > 0 {
		const size = 20
		share := max(0, min(1, r.Progress/r.Total))
		text = fmt.Sprintf("%.0f %%", 100*share)
		if c.signs {
			full := int(share * size)
			text = fmt.Sprintf("[%s%s] %s", strings.Repeat("█", full), strings.Repeat("░", size-full), text)
		}
	}
	return strings.TrimSpace(text + " " + r.Message)
}

// reading returns a reader that shows how much of r has been read. total is the size in bytes, or 0 if it is not known. At the end of r, the argument
// then becomes the text of the progress, unless it is empty.
func (p *progress) reading(r io.Reader, total int64, then string) io.Reader {
	return &readProgress{r: r, to: p, total: total, then: then}
}

type readProgress struct {
	r     io.Reader
	to    *progress
	read  int64
	total int64
	then  string
}

// Read implements io.Reader.
func (r *readProgress) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.read += int64(n)
	switch {
	case err != nil && r.then != "":
		r.to.say(r.then)
	case r.total > 0:
		r.to.did(r.to.to.reported(mcpclient.Progress{
			Progress: float64(r.read), Total: float64(r.total), Message: "of " + humanize.Bytes(uint64(r.total)),
		}))
	default:
		r.to.did(humanize.Bytes(uint64(r.read)))
	}
	return n, err
}

// stop removes the progress from the terminal. It is idempotent.
func (p *progress) stop() {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.mu.Unlock()
	p.end.Wait()
}
