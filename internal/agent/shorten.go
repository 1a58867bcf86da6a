package agent

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

const (
	defaultWindow = 128_000 // assumed size in tokens of an unknown context window
	// A conversation that takes more than fullAt percent of the window is cut to cutTo percent. Cuts are rare and large, because
	// a provider's cache is valid only up to the first change of a conversation.
	fullAt = 60
	cutTo  = 35
	// A cut that would remove less than leastCut percent of the window waits until fullestAt percent are taken.
	leastCut  = 10
	fullestAt = 85
	// bytesPerToken is the assumed ratio of bytes to tokens until the provider has counted the tokens of a request.
	bytesPerToken = 3.5
)

// shorten cuts the conversation if it takes too much of the model's context window, and returns its estimated number of tokens.
func (w *work) shorten(ctx context.Context) (tokens int) {
	window := float64(w.model.Info().ContextWindow)
	if window <= 0 {
		window = defaultWindow
	}
	ratio := w.bytesPerToken()
	percent := window * ratio / 100 // size of one percent of the window in bytes
	bytes := float64(w.bytes(w.state.compact))
	if bytes > fullAt*percent {
		least := leastCut * percent
		if bytes > fullestAt*percent {
			least = 1
		}
		if w.cut(ctx, int(cutTo*percent), int(least)) {
			bytes = float64(w.bytes(w.state.compact))
		}
	}
	return int(bytes / ratio)
}

// shortenMore halves a conversation that is too long for the provider, and reports whether anything could be cut.
func (w *work) shortenMore(ctx context.Context) bool {
	return w.cut(ctx, w.bytes(w.state.compact)/2, 1)
}

const (
	maxEarlier   = 100 // maximum number of earlier tasks of a session in a conversation
	earlierBlock = 50  // maximum number of earlier tasks that remain after a cut
)

// inherited returns the last cut that an earlier task of the session recorded, so that the conversation begins as it did in that task. The cut
// counts all earlier tasks; history may have only the last of them.
func inherited(history []task.Past) task.Compact {
	for i, past := range slices.Backward(history) {
		for _, s := range slices.Backward(past.Steps) {
			if c := s.Compact; c != nil {
				since := 0 // number of earlier tasks that the cut counts and that history no longer contains
				if c.Of > 0 {
					since = c.Of - i
				}
				return task.Compact{History: min(c.History-since, len(history)), Dropped: min(c.Dropped-since, len(history)), Of: len(history) + since}
			}
		}
	}
	return task.Compact{Of: len(history)}
}

// limitHistory leaves out earlier tasks of a long session. It leaves out many at a time, so that a provider's cache stays valid until the next time.
func (w *work) limitHistory() {
	c := w.state.compact
	shown := len(w.history) - max(c.Dropped, 0)
	if c.Dropped < 0 || shown >= maxEarlier {
		c.Of = len(w.history)
		c.Dropped = c.Of - min(shown/2, earlierBlock)
		c.History = max(c.History, c.Dropped)
		w.compact(&c)
	}
}

// compact records a cut of the conversation.
func (w *work) compact(c *task.Compact) {
	text := "The conversation became long: earlier tasks, or older results, are shown to the model in short form from here on."
	w.add(task.Step{Compact: c}, w.event(task.EventNote, fmt.Sprintf("note/%d", len(w.steps)+1), task.NoteData{Text: text}))
}

// cut shortens the conversation, to at most the given number of bytes (most) if possible. It does nothing if that would remove fewer than atLeast
// bytes. First it shortens earlier tasks, the oldest first, to their request and answer. Then it shortens older programs and results of this task
// to a line. Then it leaves out earlier tasks. The last turn and its results stay. The cut is recorded, so that the conversation stays the same
// from then on.
func (w *work) cut(ctx context.Context, most, atLeast int) bool {
	was := w.state.compact
	now := was
	now.Kept, now.Of = nil, len(w.history)
	// least calls set with the smallest i below n that makes the conversation short enough, or with n-1 if no i does.
	least := func(n int, set func(c *task.Compact, i int)) {
		i := sort.Search(n, func(i int) bool {
			try := now
			set(&try, i)
			return w.bytes(try) <= most
		})
		set(&now, min(i, n-1))
	}
	least(len(w.history)-now.History+1, func(c *task.Compact, i int) { c.History = was.History + i })
	old := w.oldResults(was.Before)
	least(len(old)+1, func(c *task.Compact, i int) {
		if i > 0 {
			c.Before = old[i-1] + 1
		}
	})
	least(now.History-now.Dropped+1, func(c *task.Compact, i int) { c.Dropped = was.Dropped + i })
	if w.bytes(was)-w.bytes(now) < atLeast {
		return false
	}
	w.saveCut(ctx, was.Before, &now)
	w.compact(&now)
	return true
}

// oldResults returns the Seqs of the results that can be shortened: those whose Seq is not below from, except the results of the last turn.
func (w *work) oldResults(from int) []int {
	var old, last []int // last: results of the last turn
	for _, s := range w.steps {
		switch {
		case s.Turn != nil:
			old, last = append(old, last...), nil
		case s.Result != nil && s.Seq >= from:
			last = append(last, s.Seq)
		}
	}
	return old
}

// saveCut saves the programs and results that the cut c shortens, and records the paths of the saved files in c.Kept. It begins with the step whose
// Seq is from. It ignores errors.
func (w *work) saveCut(ctx context.Context, from int, c *task.Compact) {
	c.Kept = map[int]string{}
	var then state
	for _, s := range w.steps {
		name, text := "", ""
		switch {
		case s.Seq < from || s.Seq >= c.Before:
		case s.Result != nil && len(s.Result.Text) > maxShortLine:
			name, text = w.resultFile(then.turns, then.results), s.Result.Text
		case s.Turn != nil:
			name = fmt.Sprintf("%s/turn-%d.js", w.task.ID, then.turns+1)
			_, text = shortTurn(&s.Turn.Turn, "")
		}
		if text != "" {
			if path, err := w.saveFile(ctx, name, []byte(text)); err == nil {
				c.Kept[s.Seq] = path
			}
		}
		then.take(s)
	}
}

// bytes returns the size of the conversation with a cut.
func (w *work) bytes(cut task.Compact) int {
	return sizeOf(w.a.system, conversation(w.history, w.task, w.steps, &cut))
}

// bytesPerToken returns the ratio of bytes to tokens in the last answered request, whose tokens the provider counted. The ratio is limited to
// plausible values.
func (w *work) bytesPerToken() float64 {
	turn := slices.IndexFunc(w.steps, func(s task.Step) bool { return s.Turn == w.state.turn && s.Turn != nil })
	if turn < 0 || w.state.turn.Usage.Input <= 0 {
		return bytesPerToken
	}
	then := state{compact: inherited(w.history)}
	for _, s := range w.steps[:turn] {
		then.take(s)
	}
	bytes := sizeOf(w.a.system, conversation(w.history, w.task, w.steps[:turn], &then.compact))
	return min(max(float64(bytes)/float64(w.state.turn.Usage.Input), 1.5), 6)
}

// sizeOf estimates the size of a request in bytes.
func sizeOf(system string, messages []model.Message) int {
	n := len(system)
	for _, t := range toolsForModel() {
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, m := range messages {
		n += len(m.Text)
		for _, r := range m.Results {
			n += len(r.Text)
		}
		if m.Turn == nil {
			continue
		}
		if len(m.Turn.Raw) > 0 {
			n += len(m.Turn.Raw)
			continue
		}
		n += len(m.Turn.Text)
		for _, c := range m.Turn.Calls {
			n += len(c.Input)
		}
	}
	return n
}
