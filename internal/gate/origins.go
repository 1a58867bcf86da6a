package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/policy"
)

// History has the recorded runs of a session, from which the origins of its values are rebuilt. *sqlstore.Store implements it.
type History interface {
	// Runs lists runs, newest first; next continues the list and is empty at its end.
	Runs(ctx context.Context, f journal.Filter) (runs []journal.RunInfo, next string, err error)
	// Read returns the records of a run in order, or an error wrapping journal.ErrNotFound.
	Read(ctx context.Context, run string) ([]journal.Record, error)
}

// maxHistory is the maximum number of a session's earlier runs that are read. If there were more, the origins of some values may be unknown.
const maxHistory = 200

// origins is what a run knows of the origins of values.
type origins struct {
	once     sync.Once
	mu       sync.Mutex
	session  *origin.Session // nil until said opens it, after Close, and if no rule uses origins
	code     string          // normalised text of the program; empty until it is needed
	recorded []journal.Record
}

// Close releases the memory of origins, which the runs of a session share. If ended is false, the run may continue later; its records are then
// read again. Close may be called while calls are in progress.
func (r *Run) Close(ended bool) {
	r.origins.once.Do(func() {}) // From now on, said does not open the memory.
	r.origins.mu.Lock()
	defer r.origins.mu.Unlock()
	s := r.origins.session
	r.origins.session = nil
	if s == nil {
		return
	}
	if !ended {
		s.Fill(func(known map[string]bool) { delete(known, r.scope.Run) })
	}
	s.Close()
}

// said returns the memory of origins that the run uses, or nil if no rule uses origins. The first call reads the records of the session, and the
// records of this run that an earlier process wrote.
func (r *Run) said(ctx context.Context) *origin.Session {
	if r.gate.opt.Origins == nil {
		return nil
	}
	o := &r.origins
	o.once.Do(func() {
		s := r.gate.opt.Origins.Open(r.scope.User, cmp.Or(r.scope.Session, r.scope.Run), r.scope.Session != "")
		s.Fill(func(known map[string]bool) { r.fill(context.WithoutCancel(ctx), s, known) })
		o.mu.Lock()
		o.session, o.recorded = s, nil
		o.mu.Unlock()
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.session
}

// fill adds to s what the user said, what earlier runs of the session recorded, and what an earlier process recorded of this run.
func (r *Run) fill(ctx context.Context, s *origin.Session, known map[string]bool) {
	for _, text := range r.scope.Said {
		s.SaidText(origin.User, text)
	}
	all := r.scope.Session == "" || r.history(ctx, s, known)
	known[r.scope.Run] = true
	if all = r.recall(ctx, s, r.origins.recorded) && all; !all {
		s.Lose()
	}
}

// history adds to s what earlier runs of the session recorded. It returns false if something is missing.
func (r *Run) history(ctx context.Context, s *origin.Session, known map[string]bool) bool {
	if r.gate.opt.History == nil {
		return true
	}
	store, err := r.gate.opt.History()
	if err != nil {
		return false
	}
	runs, next, err := store.Runs(ctx, journal.Filter{User: r.scope.User, Session: r.scope.Session, Limit: maxHistory})
	all := err == nil && next == ""
	for _, run := range slices.Backward(runs) {
		if known[run.ID] || run.ID == r.scope.Run {
			continue
		}
		records, err := store.Read(ctx, run.ID)
		if err != nil {
			all = false
			continue
		}
		all = r.recall(ctx, s, records) && all
		if !run.Ended.IsZero() {
			known[run.ID] = true
		}
	}
	return all
}

// recall adds to s the arguments and answers of the calls in a journal. It returns false if the journal does not have all of them.
func (r *Run) recall(ctx context.Context, s *origin.Session, records []journal.Record) bool {
	c, all := r.recalling(s, records), true
	for _, record := range records {
		all = c.note(ctx, record) && all
	}
	return all
}

// recalling adds the contents of a run's records to a session, one record after the other.
type recalling struct {
	run     *Run
	session *origin.Session
	unsent  map[int]bool          // calls that did not reach a server
	calls   map[int]*journal.Call // calls without an answer, by number
}

func (r *Run) recalling(s *origin.Session, records []journal.Record) *recalling {
	c := &recalling{run: r, session: s, unsent: map[int]bool{}, calls: map[int]*journal.Call{}}
	for _, record := range records {
		if a := record.Answer; a != nil && a.Error != nil {
			var failed frame.Error
			c.unsent[a.N] = json.Unmarshal(a.Error, &failed) != nil || failed.Kind == frame.KindDenied
		}
	}
	return c
}

// note adds the contents of a record to the session. It returns false if the journal does not have all of them.
func (c *recalling) note(ctx context.Context, record journal.Record) (all bool) {
	switch {
	case record.Start != nil:
		return record.Start.Input == nil || record.Start.Run == c.run.scope.Run // the input file of an earlier run no longer exists
	case record.Call != nil:
		c.calls[record.Call.N] = record.Call
		if name, args := c.run.recordedCall(record.Call); name != "" && !c.unsent[record.Call.N] {
			c.session.Sent(args)
		}
	case record.Answer != nil && c.calls[record.Answer.N] != nil:
		call := c.calls[record.Answer.N]
		delete(c.calls, record.Answer.N)
		return c.run.recallAnswer(ctx, c.session, call, record.Answer)
	}
	return true
}

// recallAnswer adds the contents of an answer to s. It returns false if the journal does not have all of them.
func (r *Run) recallAnswer(ctx context.Context, s *origin.Session, c *journal.Call, a *journal.Answer) bool {
	switch frame.Kind(c.Kind) {
	case frame.FS:
		var at struct {
			Path string `json:"path"`
		}
		if c.Name != "readFile" || a.Error != nil || json.Unmarshal(c.Args, &at) != nil {
			return true
		}
		if r.scope.Files == nil {
			return false // the content is not known, and the user may have written it
		}
		r.recallFile(ctx, s, at.Path)
		return true
	case frame.InputOf:
		if r.scope.Files == nil {
			return false // the file of the input is not read again
		}
		if r.scope.Input == nil || !ofUser(r.scope.InputFrom) || a.Error != nil {
			return true
		}
		rows, err := r.scope.Input.Recall(a.Value)
		if err == nil {
			s.Said(origin.User, rows)
		}
		return err == nil
	}
	name, _ := r.recordedCall(c)
	if name == "" {
		return true
	}
	for _, value := range []json.RawMessage{a.Value, a.Beside, a.Error} {
		s.Said(name, value)
	}
	return !bytes.Contains(a.Value, []byte(resultsFolder)) // A file with a part of the answer may have changed since.
}

// recallFile adds to s the present content of a file that a run has read, if the user wrote the file.
func (r *Run) recallFile(ctx context.Context, s *origin.Session, path string) {
	by := r.scope.Files.Hand(path)
	if by.Given == 0 || by.Given < by.Size {
		return
	}
	args, _ := json.Marshal(map[string]string{"path": path, "encoding": "utf8"}) // a map of strings always encodes
	value, failed := r.scope.Files.Call(ctx, "readFile", args)
	if failed != nil {
		return
	}
	hidden, err := r.hideRead(ctx, r.sections(path, by), value)
	if err == nil && r.scope.Files.Hand(path) == by {
		s.Said(origin.User, hidden)
	}
}

// readByUser adds to the known values what a program has read of a file, if the user wrote the file. by is the file's Hand from before it was
// read.
func (r *Run) readByUser(ctx context.Context, path string, by files.Hand, value json.RawMessage) {
	s := r.said(ctx)
	if s == nil || by.Given == 0 || by.Given < by.Size || r.scope.Files.Hand(path) != by {
		return
	}
	var in struct {
		Text   string
		Base64 []byte
	}
	if json.Unmarshal(value, &in) == nil {
		s.SaidText(origin.User, in.Text+string(in.Base64))
	}
}

// ofUser reports whether values of an origin come from the user.
func ofUser(from pii.Origin) bool {
	return from == pii.FromInput || from == pii.FromFile || from == pii.FromTask
}

// recordedCall returns the full name and the arguments of a recorded call of a tool, or of another request to a server. The name is "" for other
// host calls.
func (r *Run) recordedCall(c *journal.Call) (name string, args json.RawMessage) {
	if tool, args, ok := Fetched(c); ok {
		if server, err := r.gate.opt.Catalog.ResolveServer(tool.Server); err == nil {
			tool.Server = server
		}
		return tool.FullName(), args
	}
	var in struct {
		Server     string            `json:"server"`
		Input      json.RawMessage   `json:"input"`
		Positional []json.RawMessage `json:"positional"`
	}
	if frame.Kind(c.Kind) != frame.Tool || json.Unmarshal(c.Args, &in) != nil {
		return "", nil
	}
	if m, server := r.methodOf(in.Server, c.Name); m != nil {
		return m.tool(server).FullName(), c.Args
	}
	if tool, err := r.gate.opt.Catalog.ResolveIn(in.Server, c.Name); err == nil {
		return tool.FullName(), c.Args
	}
	if in.Server != "" && !strings.HasPrefix(c.Name, in.Server+"__") {
		return in.Server + "__" + c.Name, c.Args
	}
	return c.Name, c.Args
}

// originOf returns a function that finds the origin of a value in arguments, or nil if no rule uses origins.
func (r *Run) originOf(ctx context.Context) func(value string) policy.ValueOrigin {
	if r.gate.opt.Origins == nil {
		return nil
	}
	return func(value string) policy.ValueOrigin {
		s := r.said(ctx)
		if s == nil {
			return policy.ValueOrigin{}
		}
		return r.find(s, value)
	}
}

// find returns the origin of a value, as far as the session s knows it.
func (r *Run) find(s *origin.Session, value string) policy.ValueOrigin {
	f := s.Find(value)
	of := policy.ValueOrigin{Said: f.Said, More: f.More, Parts: f.Parts}
	switch {
	case len(f.Said) > 0 || f.More || !f.Complete:
	case r.inCode(value):
		of.Said = []string{origin.Code}
	default:
		of.Said = []string{origin.Computed}
	}
	return of
}

// inCode reports whether the text of the program, or one of its environment variables, contains a value as whole words.
func (r *Run) inCode(value string) bool {
	value = origin.Normal(value)
	if value == "" {
		return false
	}
	r.origins.mu.Lock()
	if r.origins.code == "" {
		r.origins.code = origin.Normal(strings.Join(r.scope.Code, "\n"))
	}
	code := r.origins.code
	r.origins.mu.Unlock()
	inWord := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
	for rest := code; ; {
		before, after, ok := strings.Cut(rest, value)
		if !ok {
			return false
		}
		if strings.TrimRightFunc(before, inWord) == before && strings.TrimLeftFunc(after, inWord) == after {
			return true
		}
		rest = rest[len(before)+1:]
	}
}

// saidBy adds to the known values the answer of a tool, or of another request to a server. The answer contains no personal data.
func (t *toolCall) saidBy(ctx context.Context, value json.RawMessage) {
	if s := t.run.said(ctx); s != nil {
		s.Said(t.name, value)
	}
}

// saidInFile adds to the known values the name and the content of a file that holds a part of an answer.
func (t *toolCall) saidInFile(ctx context.Context, name, content string) {
	if s := t.run.said(ctx); s != nil {
		s.SaidText(t.name, name)
		s.SaidText(t.name, content)
	}
}

// failedBy adds to the known values what a server said in an error.
func (t *toolCall) failedBy(ctx context.Context, failed *frame.Error) {
	if s := t.run.said(ctx); s != nil {
		s.SaidText(t.name, failed.Message)
		s.Said(t.name, failed.Data)
	}
}

// sends records the arguments of a call as values that were sent to a server.
func (t *toolCall) sends(ctx context.Context, args json.RawMessage) {
	if s := t.run.said(ctx); s != nil {
		s.Sent(args)
	}
}
