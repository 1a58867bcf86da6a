package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"mcp-code-exec-harness/internal/mcpclient"
)

const (
	// progressDelay is how long something takes before a terminal shows it.
	progressDelay = 300 * time.Millisecond
	// progressTick is the time between two pictures.
	progressTick = 100 * time.Millisecond
	// plainDelay is how long something takes before plain output has a line about it; each further line takes twice as long.
	plainDelay = 10 * time.Second
)

var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// progress shows on a terminal what a command is waiting for: in a line with a spinner below all output, in plain output with a line
// now and then.
// Its methods are safe for concurrent use.
type progress struct {
	to   *console
	lead func(width int) []string // lines above that with the spinner; nil: none. Called without mu
	done chan struct{}
	end  sync.WaitGroup

	mu    sync.Mutex
	text  string
	since time.Time // the text
	extra string    // behind the time
}

// progress begins to show what the command is waiting for. The caller calls stop.
func (a *app) progress(text string) *progress { return a.progressOf(text, nil) }

// progressOf shows further lines above the one with the spinner.
func (a *app) progressOf(text string, lead func(width int) []string) *progress {
	p := &progress{to: a.stderr, lead: lead, done: make(chan struct{}), text: text, since: time.Now()}
	if p.to.terminal != nil && !a.flags.JSON || p.to.live {
		p.end.Go(p.show)
	}
	return p
}

// show draws pictures until the progress has stopped.
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
			p.to.line("still "+text+fmt.Sprintf(" (%.0f s)", after.Seconds()), "")
		}
		wait *= 2
		timer.Reset(wait)
	}
}

func (p *progress) about() (text string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text, time.Since(p.since)
}

// picture is what a terminal of so many columns shows.
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
	if after := time.Since(p.since); after >= time.Second {
		text += fmt.Sprintf(" (%.0f s)", after.Seconds())
	}
	if p.extra != "" {
		text += " · " + p.extra
	}
	spin := p.to.paint(spinner[frame%len(spinner)], blue)
	return append(lines, ansi.Truncate(spin+" "+visible(text), width, "…"))
}

// say replaces the text.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != text {
		p.text, p.since = text, time.Now()
	}
}

// add replaces what stands behind the text.
func (p *progress) add(extra string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = extra
}

// reported is what a server reports of a call: a bar where the total is known.
func reported(r mcpclient.Progress) string {
	text := fmt.Sprintf("%g", r.Progress)
	if r.Total > 0 {
		const size = 20
		done := max(0, min(size, int(r.Progress/r.Total*size)))
		text = fmt.Sprintf("[%s%s] %.0f %%", strings.Repeat("█", done), strings.Repeat("░", size-done), 100*r.Progress/r.Total)
	}
	return strings.TrimSpace(text + " " + r.Message)
}

// stop removes what is shown. It is idempotent.
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
