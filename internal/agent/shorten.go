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
	defaultWindow = 128_000 // tokens of a model whose context window is not known
	// A conversation that takes more than fullAt percent of the window is cut to cutTo percent: rarely and by much, because
	// a provider's cache ends where a conversation changes.
	fullAt = 60
	cutTo  = 35
	// bytesPerToken is assumed until the provider has said how many tokens a request had.
	bytesPerToken = 3.5
)

// shorten cuts the conversation if it takes too much of the model's context window.
func (w *work) shorten(ctx context.Context) {
	window := w.model.Info().ContextWindow
	if window <= 0 {
		window = defaultWindow
	}
	ratio := w.bytesPerToken()
	if tokens := float64(w.bytes(w.state.compact)) / ratio; tokens > float64(window)*fullAt/100 {
		w.cut(ctx, int(float64(window)*cutTo/100*ratio))
	}
}

// shortenMore cuts the conversation to half of what it was, because the provider says that it is too long. It reports
// whether there was anything to cut.
func (w *work) shortenMore(ctx context.Context) bool {
	return w.cut(ctx, w.bytes(w.state.compact)/2)
}

// cut shortens the conversation to a number of bytes, as far as that is possible: first earlier tasks, the oldest first,
// to their request and answer; then older results of this task to a line; then it leaves out earlier tasks. The results
// of the last turn stay. What is cut is recorded, so that the conversation stays the same from then on.
func (w *work) cut(ctx context.Context, most int) bool {
	was := w.state.compact
	now := was
	now.Kept = nil
	// least is the smallest of n values, in order, with which the conversation is short enough; else the last.
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
	if now.History == was.History && now.Before == was.Before && now.Dropped == was.Dropped {
		return false
	}
	now.Kept = w.keepResults(ctx, was.Before, now.Before)
	text := "The conversation became long: earlier tasks, or older results, are shown to the model in short form from here on."
	w.add(task.Step{Compact: &now}, w.event(task.EventNote, fmt.Sprintf("note/%d", len(w.steps)+1), map[string]string{"text": text}))
	return true
}

// oldResults are the places of results, from a place on, that can be shortened.
func (w *work) oldResults(from int) []int {
	last := 0 // the last turn's place
	for _, s := range w.steps {
		if s.Turn != nil {
			last = s.Seq
		}
	}
	var places []int
	for _, s := range w.steps {
		if s.Result != nil && s.Seq >= from && s.Seq < last {
			places = append(places, s.Seq)
		}
	}
	return places
}

// keepResults stores the results that are shortened now, and says where.
func (w *work) keepResults(ctx context.Context, from, to int) map[int]string {
	kept := map[int]string{}
	var then state
	for _, s := range w.steps {
		if s.Result != nil && s.Seq >= from && s.Seq < to && len(s.Result.Text) > maxShortLine {
			// One that cannot be kept is shown as cut all the same.
			if path, err := w.keep(ctx, w.resultFile(then.turns, then.results), []byte(s.Result.Text)); err == nil {
				kept[s.Seq] = path
			}
		}
		then.take(s)
	}
	return kept
}

// bytes is the size of the conversation, cut as given.
func (w *work) bytes(cut task.Compact) int {
	return sizeOf(w.a.opt.Prompts.system, conversation(w.history, w.task, w.steps, &cut))
}

// bytesPerToken is what the provider's count of the last request's tokens says, within sensible bounds.
func (w *work) bytesPerToken() float64 {
	turn := slices.IndexFunc(w.steps, func(s task.Step) bool { return s.Turn == w.state.turn && s.Turn != nil })
	if turn < 0 || w.state.turn.Usage.Input <= 0 {
		return bytesPerToken
	}
	var then state
	for _, s := range w.steps[:turn] {
		then.take(s)
	}
	bytes := sizeOf(w.a.opt.Prompts.system, conversation(w.history, w.task, w.steps[:turn], &then.compact))
	return min(max(float64(bytes)/float64(w.state.turn.Usage.Input), 1.5), 6)
}

// sizeOf is about how many bytes a request has.
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
