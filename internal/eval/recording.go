package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
)

const recordingVersion = 1

// Recording holds the dialogues of a model in trials of a suite. It has texts and no hashes, so that a dialogue that differs can be explained, and
// changes can be reviewed. Personal data in it is hidden as it was from the model. Its JSON has a stable order of keys.
type Recording struct {
	Version   int          `json:"version"`
	Suite     string       `json:"suite"`
	Model     model.Info   `json:"model"`
	System    string       `json:"system"` // system prompt of all requests
	Tools     []model.Tool `json:"tools"`  // tools of all requests
	Dialogues []Dialogue   `json:"dialogues"`
}

// Dialogue is everything that a model was sent and answered in one trial.
type Dialogue struct {
	Task       string     `json:"task"`
	Repetition int        `json:"repetition"` // counted from 1
	Turns      []Exchange `json:"turns"`
}

// Exchange is a request and its answer. The messages of the request are the first Keep messages of the request before, and then Messages.
type Exchange struct {
	Keep     int         `json:"keep,omitempty"`
	Messages []Message   `json:"messages"`
	Turn     *model.Turn `json:"turn"`
}

// Message is what counts of a model.Message: no ids, no provider's own JSON, no durations.
type Message struct {
	Role    model.Role `json:"role"`
	Text    string     `json:"text,omitempty"`
	Calls   []Call     `json:"calls,omitempty"`
	Results []Result   `json:"results,omitempty"`
}

// Call is a call of a model.
type Call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Result is the answer to a call.
type Result struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// DecodeRecording reads a recording.
func DecodeRecording(rd io.Reader) (*Recording, error) {
	rec := new(Recording)
	text, err := io.ReadAll(rd)
	if err == nil {
		var compact bytes.Buffer // JSON within turns is as the model wrote it, without the indentation of the file
		if err = json.Compact(&compact, text); err == nil {
			err = json.Unmarshal(compact.Bytes(), rec)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	switch {
	case rec.Version == 0 || rec.Dialogues == nil:
		return nil, errors.New("read recording: it is not one of a suite; harness eval --record writes one")
	case rec.Version != recordingVersion:
		return nil, fmt.Errorf("read recording: it has version %d, this program reads version %d", rec.Version, recordingVersion)
	}
	for _, d := range rec.Dialogues {
		for i, e := range d.Turns {
			if e.Turn == nil || e.Keep < 0 || i == 0 && e.Keep > 0 {
				return nil, fmt.Errorf("read recording: turn %d of task %q is not complete", i+1, d.Task)
			}
		}
	}
	return rec, nil
}

// dialogue returns the dialogue of a trial. If fewer repetitions are recorded, they are played again, and again is true; a repetition of that kind is no
// new observation of the model.
func (r *Recording) dialogue(task string, repetition int) (d *Dialogue, again bool) {
	var all []*Dialogue
	for i := range r.Dialogues {
		if r.Dialogues[i].Task == task {
			all = append(all, &r.Dialogues[i])
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	return all[(repetition-1)%len(all)], repetition > len(all)
}

func messagesOf(req *model.Request) []Message {
	all := make([]Message, len(req.Messages))
	for i, m := range req.Messages {
		said := Message{Role: m.Role, Text: m.Text}
		if m.Turn != nil {
			said.Text = m.Turn.Text
			for _, c := range m.Turn.Calls {
				input := journal.Canonical(c.Input)
				if c.Malformed != "" {
					input, _ = journal.Encode(c.Malformed) // a text has a form in JSON
				}
				said.Calls = append(said.Calls, Call{c.Name, input})
			}
		}
		for _, r := range m.Results {
			said.Results = append(said.Results, Result{r.Name, r.Text, r.IsError})
		}
		all[i] = said
	}
	return all
}

// recorder is a model that records the dialogue of one trial with another model. Requests of a trial do not overlap.
type recorder struct {
	model.Model
	into   *Recording
	mu     *sync.Mutex // protects into
	turns  []Exchange
	before []Message // messages of the last request
	failed bool      // the last request had no answer
}

// Generate implements model.Model.
func (r *recorder) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	if err := r.head(req); err != nil {
		return nil, err
	}
	turn, err := r.Model.Generate(ctx, req)
	if r.failed = err != nil; r.failed {
		return nil, err
	}
	now := messagesOf(req)
	keep := 0
	for keep < min(len(now), len(r.before)) && slices.Equal(r.before[keep].parts(), now[keep].parts()) {
		keep++
	}
	// The caller may still hide personal data in the turn.
	r.turns, r.before = append(r.turns, Exchange{Keep: keep, Messages: slices.Clone(now[keep:]), Turn: turn}), now
	return turn, nil
}

// head records what all requests of a recording have in common.
func (r *recorder) head(req *model.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.into.System == "":
		r.into.System, r.into.Tools = req.System, req.Tools
	case r.into.System != req.System:
		return errors.New("record the dialogue: the system prompt differs from that of another task")
	}
	return nil
}

// end adds the dialogue to the recording. A dialogue whose last request had no answer is not added, because it cannot be played to its end.
func (r *recorder) end(task string, repetition int) (added bool) {
	if r.failed || len(r.turns) == 0 {
		return false
	}
	for i := range r.turns {
		turn := *r.turns[i].Turn
		turn.Duration = 0
		r.turns[i].Turn = &turn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.into.Model = r.Info()
	r.into.Dialogues = append(r.into.Dialogues, Dialogue{task, repetition, r.turns})
	return true
}

// player is a model that plays a recorded dialogue. Requests of a trial do not overlap.
type player struct {
	rec      *Recording
	dialogue *Dialogue // nil: the task is not recorded
	next     int
	before   []Message // recorded messages of the last request
	diverged error     // reason why the recording does not match; nil as long as it does
}

// Info implements model.Model.
func (p *player) Info() model.Info { return p.rec.Model }

// Generate returns the next recorded turn. A request other than the recorded one is an error that names the first difference.
func (p *player) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("play a model's turn: %w", context.Cause(ctx))
	}
	if p.diverged = p.match(req); p.diverged != nil {
		return nil, p.diverged
	}
	turn := *p.dialogue.Turns[p.next].Turn
	p.next++
	if req.OnDelta != nil && turn.Text != "" {
		req.OnDelta(model.Delta{Text: turn.Text})
	}
	return &turn, nil
}

func (p *player) match(req *model.Request) error {
	if p.dialogue == nil {
		return errors.New("the recording has no dialogue of this task")
	}
	turn := p.next + 1
	if d := difference(head(p.rec.System, p.rec.Tools), head(req.System, req.Tools)); d != "" {
		return fmt.Errorf("turn %d: %s", turn, d)
	}
	if p.next == len(p.dialogue.Turns) {
		return fmt.Errorf("turn %d: only %d turns are recorded", turn, p.next)
	}
	e := p.dialogue.Turns[p.next]
	want, got := append(slices.Clone(p.before[:min(e.Keep, len(p.before))]), e.Messages...), messagesOf(req)
	p.before = want
	for i := range max(len(want), len(got)) {
		var was, is []part
		if i < len(want) {
			was = want[i].parts()
		}
		if i < len(got) {
			is = got[i].parts()
		}
		if d := difference(was, is); d != "" {
			return fmt.Errorf("turn %d: message %d, %s", turn, i+1, d)
		}
	}
	return nil
}

// part is a text of a request, with its name.
type part struct{ what, text string }

// head returns what all requests of a task begin with.
func head(system string, tools []model.Tool) []part {
	all := []part{{"the system prompt", system}}
	for _, t := range tools {
		all = append(all, part{"the model's tool " + t.Name, t.Description + "\n" + string(journal.Canonical(t.InputSchema))})
	}
	return all
}

func (m *Message) parts() []part {
	all := []part{{"the text of the " + string(m.Role), m.Text}}
	for _, c := range m.Calls {
		all = append(all, part{"a call of " + c.Name, string(c.Input)})
	}
	for _, r := range m.Results {
		name := "the result of " + r.Name
		if r.IsError {
			name = "the error of " + r.Name
		}
		all = append(all, part{name, r.Text})
	}
	return all
}

// difference describes the first difference between the parts of two requests; "" if there is none.
func difference(was, is []part) string {
	for i := range max(len(was), len(is)) {
		switch {
		case i >= len(is):
			return was[i].what + " is missing"
		case i >= len(was):
			return is[i].what + " is not recorded: " + fmt.Sprintf("%q", clip.Text(is[i].text, maxLine))
		case was[i].what != is[i].what:
			return fmt.Sprintf("%s is recorded, and now it is %s: %q", was[i].what, is[i].what, clip.Text(is[i].text, maxLine))
		case was[i].text != is[i].text:
			return was[i].what + firstLine(was[i].text, is[i].text)
		}
	}
	return ""
}

const maxLine = 160 // size in bytes of a line in a difference

// firstLine describes the first line in which two texts differ.
func firstLine(was, is string) string {
	number := 1
	for {
		a, restA, moreA := strings.Cut(was, "\n")
		b, restB, moreB := strings.Cut(is, "\n")
		if a == b && (moreA || moreB) {
			was, is, number = restA, restB, number+1
			continue
		}
		same := 0 // a long line begins shortly before the difference
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		if same = strings.LastIndexByte(a[:max(same-maxLine/2, 0)], ' ') + 1; same > 0 {
			a, b = "..."+a[same:], "..."+b[same:]
		}
		return fmt.Sprintf(" differs in line %d: recorded %q, now %q", number, clip.Text(a, maxLine), clip.Text(b, maxLine))
	}
}

// Sort orders the dialogues by task and repetition.
func (r *Recording) Sort(tasks []*Task) {
	place := func(d Dialogue) int { return slices.IndexFunc(tasks, func(t *Task) bool { return t.Name == d.Task }) }
	slices.SortFunc(r.Dialogues, func(a, b Dialogue) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Repetition, b.Repetition))
	})
}
