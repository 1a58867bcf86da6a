package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/runs"
)

// Maximum numbers of bytes that are shown.
const (
	shownArgs = 160 // arguments of a call, if the width of the terminal does not limit them
	shownText = 100 // text in a list
)

const (
	// maxWritten is the maximum number of bytes that are kept of a model's unfinished text, and of its unfinished call.
	maxWritten = 256 << 10
	// maxInFlight is the maximum number of calls in flight that have a line of their own.
	maxInFlight = 3
	// maxOutputLines is the maximum number of lines of an output that are shown.
	maxOutputLines = 12
)

// view shows what happens in tasks and runs. It receives events of a task, events of a run in this process, or records of a journal. It writes lines
// about what has happened. Below these lines it shows work in progress, if the terminal can overwrite lines. On a stream without signs it writes
// words instead. Its methods are safe for concurrent use.
type view struct {
	to       *console
	progress *progress                 // nil: no work is in progress
	brief    bool                      // shows only the console lines of a run
	silent   bool                      // shows not even the console lines
	follow   bool                      // another process does the work, and asks about its calls
	servers  func() []mcpclient.Status // servers that this process calls; nil: another process does the work

	mu       sync.Mutex
	turns    int
	text     string // text of the model's turn so far
	tool     string // tool of the call that the model is writing
	input    string // input of that call
	calls    map[int]*shownCall
	began    time.Time // beginning of the current turn or run
	runCalls int       // tool calls of the run
	problem  string    // error of the last failed call
	failed   int       // number of the last failed call
	usage    model.Usage
	cost     float64
	priced   bool      // cost is known
	clock    time.Time // time of a run's last record

	waitsSince time.Time                // time at which a person was asked; zero: no one is being asked
	requests   map[int]approval.Request // last request for an approval of each call of a recorded run
}

// shownCall is a call that has no answer yet.
type shownCall struct {
	kind, name string
	args       json.RawMessage
	began      time.Time
	reported   string // progress that its server reported
	asked      bool   // the call waits for an approval

	waited time.Duration // time that a person took to decide; not part of the duration of the call
}

func (c *shownCall) shown() bool { return c.kind == string(frame.Tool) || c.kind == string(frame.FS) }

func newView(to *console) *view { return &view{to: to, calls: map[int]*shownCall{}} }

// start begins to show work in progress. The caller calls stop, and may then call start again.
func (v *view) start(a *app, awaited string) {
	p := a.progressOf(awaited, v.picture)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress = p
}

// runView returns a brief view of a run. It shows the run's console lines and, below them, what the run waits for.
func (a *app) runView(h harness, awaited string) *view {
	v := newView(a.stderr)
	v.brief, v.silent = true, a.flags.JSON // the JSON result contains the console lines
	v.servers = h.Servers().Servers
	v.start(a, awaited)
	return v
}

// stop removes work in progress from the terminal. It is idempotent.
func (v *view) stop() {
	v.mu.Lock()
	p := v.progress
	v.mu.Unlock()
	if p != nil {
		p.stop()
	}
}

// stopped notes that no work is in progress any more. The caller holds mu.
func (v *view) stopped() {
	v.text, v.tool, v.input = "", "", ""
	clear(v.calls)
	v.say("")
}

func (v *view) say(text string) {
	if v.progress != nil {
		v.progress.say(text)
	}
}

// pick returns signs if the stream has signs, otherwise words.
func (v *view) pick(signs, words string) string {
	if v.to.signs {
		return signs
	}
	return words
}

// lines writes a text after a prefix, in a colour.
func (v *view) lines(prefix, text, color string) {
	v.to.put(v.to.paragraph(prefix, text, color))
}

// waitForModel notes that the model was asked.
func (v *view) waitForModel(at time.Time) {
	v.began, v.text, v.tool, v.input = at, "", "", ""
	v.say(fmt.Sprintf("waiting for the model, turn %d", v.turns+1))
}

// writes adds a piece of what the model is writing.
func (v *view) writes(d eventData) {
	if d.Reset {
		v.text, v.tool, v.input = "", "", ""
	}
	if d.Notice != "" {
		v.lines(v.pick("  ! ", "  "), d.Notice, yellow)
		v.say("waiting for the model, turn " + fmt.Sprint(v.turns+1))
	}
	v.text = tail(v.text+d.Text, maxWritten)
	if d.Call != "" {
		if d.Call != v.tool {
			v.input = ""
		}
		v.tool = d.Call
		if len(v.input) < maxWritten {
			v.input += d.Input
		}
	}
	switch {
	case v.tool == executeCode:
		v.say("the model writes a program")
	case v.tool != "":
		v.say("the model calls " + v.tool)
	case v.text != "":
		v.say("the model writes")
	}
}

const executeCode = "execute_code"

// tail returns the end of a text, shortened to a maximum number of bytes.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}

// turn shows an answer of the model.
func (v *view) turn(d eventData, at time.Time) {
	v.turns = d.Turn
	v.usage = v.usage.Add(d.Usage)
	v.lines("", fmt.Sprintf("turn %d", d.Turn), bold)
	if d.Text != "" && len(d.Calls) > 0 { // the text of the last turn is the answer, which is printed later
		v.lines("  ", strings.TrimSpace(d.Text), "")
	}
	for _, call := range d.Calls {
		if call.Name != executeCode {
			v.lines("  ", call.Name+" "+cut(string(call.Input), shownArgs), purple)
		}
	}
	facts := []string{fmt.Sprintf("%s tokens in, %s out", count(d.Usage.Input), count(d.Usage.Output))}
	if d.CostUSD != nil {
		v.cost, v.priced = v.cost+*d.CostUSD, true
		facts = append(facts, dollars(*d.CostUSD))
	}
	if !v.began.IsZero() {
		facts = append(facts, took(at.Sub(v.began)))
	}
	v.lines("  ", strings.Join(facts, ", "), dim)
	v.waitForModel(at) // the view shows that it waits for the model, until a call of a tool or a program begins
	if v.progress != nil {
		so := count(v.usage.Input+v.usage.Output) + " tokens"
		if v.priced {
			so += ", " + dollars(v.cost)
		}
		v.progress.add(so)
	}
}

func dollars(usd float64) string { return fmt.Sprintf("$%.4f", usd) }

// took returns a duration as text for people.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// run shows the beginning of a run.
func (v *view) run(id, code string, at time.Time) {
	v.began, v.runCalls, v.problem = at, 0, ""
	clear(v.calls)
	if v.brief {
		return
	}
	v.lines("  ", "run "+id, dim)
	v.program(code)
	v.say("the program runs")
}

// program shows the text of a program.
func (v *view) program(code string) {
	const further = "  " // indents the rest of a line that is too long
	prefix := v.pick("  │ ", "    ")
	for line := range strings.SplitSeq(strings.TrimRight(code, "\n"), "\n") {
		for i, part := range wrapped(line, max(v.to.room(prefix+further), 0)) {
			if i > 0 {
				part = further + part
			}
			v.to.put(strings.TrimRight(prefix+v.to.code(part), " ") + "\n")
		}
	}
}

// call notes a call of a program.
func (v *view) call(n int, kind, name string, args json.RawMessage, at time.Time) {
	c := &shownCall{kind: kind, name: name, args: args, began: at}
	if c.shown() {
		c.name, c.args = runs.Called(kind, name, args)
	}
	if kind == string(frame.Tool) {
		v.runCalls++
	}
	v.calls[n] = c
	v.sayCalls()
}

// sayCalls shows whether the program waits for calls or for a timer.
func (v *view) sayCalls() {
	var waits []string
	timer := false
	for _, c := range v.calls {
		if c.shown() {
			waits = append(waits, c.name)
		}
		timer = timer || c.kind == string(frame.Timer)
	}
	switch {
	case len(waits) == 1:
		v.say("waiting for " + waits[0])
	case len(waits) > 1:
		v.say(fmt.Sprintf("waiting for %d calls", len(waits)))
	case timer:
		v.say("the program waits for a timer")
	default:
		v.say("the program runs")
	}
}

// report shows progress that the server of a call has reported.
func (v *view) report(n int, r mcpclient.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reported(n, r)
}

// reported notes the progress of a call. The caller holds mu.
func (v *view) reported(n int, r mcpclient.Progress) {
	c := v.calls[n]
	if c == nil {
		return
	}
	c.reported = v.to.reported(r)
	if v.progress != nil && !v.to.live { // calls have no lines of their own where lines cannot be overwritten
		v.progress.did(c.reported)
	}
}

// installing reports which servers are being installed.
func (v *view) installing() map[string]bool {
	names := map[string]bool{}
	if v.servers != nil && len(v.calls) > 0 {
		for _, s := range v.servers() {
			names[s.Name] = s.State == mcpclient.StateInstalling
		}
	}
	return names
}

// answer shows a call and its answer. size is the size of the answer in bytes, or 0 if it is not known. kept is the time of the earlier call whose answer
// it is, in microseconds since the Unix epoch; 0 if there is none or it is not known.
func (v *view) answer(n int, size int, problem string, kept int64, at time.Time) {
	c := v.calls[n]
	if c == nil {
		return
	}
	delete(v.calls, n)
	v.sayCalls()
	if v.brief || !c.shown() {
		return
	}
	facts := took(at.Sub(c.began))
	if c.waited > 0 {
		facts = "waited " + took(c.waited) + " for approval, took " + facts
	}
	if kept != 0 {
		facts = "kept from " + time.UnixMicro(kept).Format(time.TimeOnly)
	}
	color := blue
	switch {
	case problem != "":
		facts, color = facts+", failed", yellow
	case size > len("null"):
		facts += ", " + humanize.Bytes(uint64(size))
	}
	v.called(n, c, facts, color)
	if problem != "" {
		v.lines("    ", cut(problem, 2*shownArgs), yellow)
		v.problem, v.failed = problem, n
	}
}

// called writes the line of a call. It cuts the arguments so that the line has room for the facts.
func (v *view) called(n int, c *shownCall, facts, color string) {
	head := v.pick("  → ", fmt.Sprintf("  call %d: ", n)) + clip.Visible(c.name)
	facts = v.pick(" · ", ": ") + facts
	args := " " + cut(string(c.args), shownArgs)
	if width := v.to.width(); width > 0 {
		args = " " + strings.Join(strings.Fields(clip.Head(string(c.args), 4*width)), " ")
		room := width - 1 - ansi.StringWidth(head) - ansi.StringWidth(facts)
		if args = ansi.Truncate(clip.Visible(args), max(room, 0), "…"); room < 0 {
			v.lines("", head, color)
			v.lines("    ", strings.TrimLeft(facts, " ·:"), color)
			return
		}
	}
	v.to.line(head+args+facts, color)
}

// log shows a console line.
func (v *view) log(level, text string) {
	switch {
	case v.silent:
	case v.brief:
		v.to.line(text, levelColors[level])
	case v.to.signs:
		v.lines("  · ", text, levelColors[level])
	case level == "log":
		v.lines("  ", text, "")
	default:
		v.lines("  "+level+": ", text, "")
	}
}

// ended shows how a run ended.
func (v *view) ended(output json.RawMessage, kind, problem string, span time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(v.calls)) {
		if c := v.calls[n]; c.shown() && !v.brief {
			v.called(n, c, "no answer", yellow)
		}
	}
	clear(v.calls)
	if v.brief {
		return
	}
	facts := took(span)
	if v.runCalls > 0 {
		facts += fmt.Sprintf(", %d tool %s", v.runCalls, plural(v.runCalls, "call", "calls"))
	}
	if problem != "" {
		if problem == v.problem { // the error was just shown
			problem = fmt.Sprintf("the error of call %d", v.failed)
		}
		v.lines(v.pick("  ✗ ", "  failed: "), kind+": "+cut(problem, 2*shownArgs), red)
		v.lines("  ", facts, dim)
		return
	}
	head := v.pick("  ✓ ", "  output: ")
	lines := wrapped(string(output), 0)
	if len(lines) > 1 || v.to.room(head) > 0 && ansi.StringWidth(lines[0]) > v.to.room(head) {
		lines = wrapped(pretty(output), v.to.room(head))
	}
	more := len(lines) - maxOutputLines
	if more > 0 {
		lines = lines[:maxOutputLines]
	}
	for i, line := range lines {
		if v.to.width() == 0 {
			line = clip.Text(line, 4*shownArgs)
		}
		if i > 0 {
			head = strings.Repeat(" ", 4)
		}
		v.to.put(v.to.paint(head+line, green) + "\n")
	}
	if more > 0 {
		facts = fmt.Sprintf("%d more %s of output, ", more, plural(more, "line", "lines")) + facts
	}
	v.lines("  ", facts, dim)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// picture returns the lines about work in progress: the end of what the model has written, or the calls in flight.
func (v *view) picture(width int) (lines []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	window := max(2, min(12, v.to.height()-6))
	last := func(prefix string, all []string, shown func(string) string) {
		for _, line := range all[max(0, len(all)-window):] {
			lines = append(lines, prefix+shown(line))
		}
	}
	if v.text != "" {
		last("  ", wrapped(tail(v.text, 16<<10), max(width-2, 16)), func(s string) string { return s })
	}
	if v.tool == executeCode {
		if code := tail(partialCode(v.input), 16<<10); code != "" {
			last("  │ ", wrapped(code, max(width-4, 16)), v.to.code)
		}
	}
	flying, installing := 0, v.installing()
	for _, n := range slices.Sorted(maps.Keys(v.calls)) {
		c := v.calls[n]
		if !c.shown() {
			continue
		}
		if flying++; flying > maxInFlight {
			continue
		}
		about := c.reported
		if server, _, _ := strings.Cut(c.name, "__"); installing[server] {
			about = "(its server is being installed)"
		} else if about == "" {
			about = strings.Join(strings.Fields(clip.Head(string(c.args), 4*width)), " ")
		}
		lines = append(lines, v.to.paint(ansi.Truncate("  → "+clip.Visible(c.name+" "+about), width, "…"), dim))
	}
	if flying > maxInFlight {
		lines = append(lines, v.to.paint(fmt.Sprintf("  → and %d more", flying-maxInFlight), dim))
	}
	return lines
}

// partialCode returns the text at the key code of an incomplete JSON object, as far as the text has arrived.
func partialCode(raw string) (code string) {
	_, rest, _ := strings.Cut(raw, `"code"`)
	rest, ok := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n:"), `"`)
	if !ok {
		return ""
	}
	end := 0
	for end < len(rest) && rest[end] != '"' {
		size := 1
		if rest[end] == '\\' {
			if size = 2; end+1 < len(rest) && rest[end+1] == 'u' {
				size = 6
			}
		}
		if end+size > len(rest) {
			break
		}
		end += size
	}
	if json.Unmarshal([]byte(`"`+rest[:end]+`"`), &code) != nil {
		return ""
	}
	return code
}

// cut shortens a text to a maximum number of bytes, on one line.
func cut(text string, most int) string {
	return clip.Text(strings.Join(strings.Fields(text), " "), most)
}
