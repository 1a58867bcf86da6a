package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/origin"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/task"
)

// reading is one pass over the calls of recorded runs.
type reading struct {
	*Source
	looked   Looked
	all      bool // whether all recorded runs are read
	memory   *origin.Memory
	sessions map[[2]string]*session // sessions with unread runs, by user and name
	visit    func(*call)
}

// session holds the origins of values in a session of recorded runs, or in a run without a session.
type session struct {
	*gate.Recall
	runs  int         // number of unread runs
	tasks []task.Task // tasks whose texts are not recorded as origins yet, oldest first
}

// sessionOf returns user and session name of a run. A run without a session is a session by itself.
func sessionOf(info journal.RunInfo) [2]string {
	return [2]string{info.User, cmp.Or(info.Session, info.ID)}
}

// read visits the recorded calls. It begins with the oldest run.
func (s *Source) read(ctx context.Context, visit func(*call)) (Looked, error) {
	limits := origin.DefaultLimits
	if s.Bounds.Origins > 0 {
		limits = origin.Limits{Owner: s.Bounds.Origins, All: s.Bounds.Origins}
	}
	r := &reading{Source: s, looked: Looked{Unread: []Unread{}}, memory: origin.NewMemory(limits), sessions: map[[2]string]*session{}, visit: visit}
	infos, all, err := s.list(ctx, &r.looked)
	if err != nil {
		return Looked{}, err
	}
	r.all = all
	for _, info := range infos {
		of := sessionOf(info)
		if r.sessions[of] == nil {
			r.sessions[of] = &session{}
		}
		r.sessions[of].runs++
	}
	for _, info := range slices.Backward(infos) { // the oldest run first
		if err := r.run(ctx, info); err != nil {
			return Looked{}, err
		}
	}
	return r.looked, nil
}

// begin returns the session of a run. It first prepares the session for the records of the run.
func (r *reading) begin(ctx context.Context, info journal.RunInfo, records []journal.Record) (*session, error) {
	of := sessionOf(info)
	s := r.sessions[of]
	if s.Recall == nil {
		s.Recall = gate.NewRecall(r.Catalog, r.memory.Open(of[0], of[1], false))
		if info.Session != "" {
			if !r.all {
				s.Lose()
			}
			found, next, err := r.Tasks.Tasks(ctx, task.Filter{UserID: info.User, SessionID: info.Session, Limit: 1000})
			if err != nil {
				return nil, err
			}
			if next != "" {
				s.Lose()
			}
			slices.Reverse(found)
			s.tasks = found
		}
	}
	for len(s.tasks) > 0 && !s.tasks[0].CreatedAt.After(info.Started) {
		t := s.tasks[0]
		s.tasks = s.tasks[1:]
		if t.From == "" || t.From == pii.FromTask {
			s.Said(t.Task)
			s.Said(string(t.Context))
		}
	}
	var code []string
	if len(records) > 0 && records[0].Start != nil {
		code = append(slices.Sorted(maps.Values(records[0].Start.Env)), records[0].Start.Source)
	}
	s.Begin(info.ID, code, records)
	return s, nil
}

// end is called after each run. It closes the run's session if no other run of the session is still to be read.
func (r *reading) end(info journal.RunInfo) {
	of := sessionOf(info)
	s := r.sessions[of]
	if s.runs--; s.runs == 0 {
		s.Close()
		delete(r.sessions, of)
	}
}

// run visits the calls of a run, in the order of its journal.
func (r *reading) run(ctx context.Context, info journal.RunInfo) error {
	records, unread, err := r.journal(ctx, info.ID)
	if err != nil {
		return err
	}
	s, err := r.begin(ctx, info, records)
	if err != nil {
		return err
	}
	defer r.end(info)
	if unread != "" {
		s.Lose()
		r.looked.miss(Unread{Run: info.ID, Reason: unread})
		return nil
	}
	r.looked.Runs++
	began, tier := time.Time{}, ""
	origins := map[string][]string{} // origins by the keys of tokens
	shows := func(origin, text string) {
		for _, token := range pii.Mentions(text) {
			for _, key := range append(token.Within, token.Key) {
				if !slices.Contains(origins[key], origin) {
					origins[key] = append(origins[key], origin)
				}
			}
		}
	}
	from := map[int]string{} // origin of the tokens in the answer to each call
	for _, record := range records {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		switch {
		case record.Start != nil:
			began, tier = time.UnixMicro(record.Start.Time), record.Start.Tier
			shows("program", record.Start.Source)
		case record.Call != nil && frame.Kind(record.Call.Kind) == frame.FS:
			from[record.Call.N] = "program" // the journal does not tell who wrote the file
		case record.Call != nil:
			of, known, ok := recorded(r.Catalog, info.User, record.Call)
			if !ok {
				break
			}
			from[record.Call.N], of.Sandbox, of.Origin = of.Tool, tier, s.Origin
			if r.Bounds.Args > 0 && len(of.Args) > r.Bounds.Args {
				r.looked.miss(Unread{info.ID, record.Call.N, fmt.Sprintf("its arguments have more than %d KiB", r.Bounds.Args>>10)})
				break
			}
			of.Tokens = tokensOf(pii.Mentions(string(of.Args)), origins)
			r.looked.Calls++
			r.visit(&call{of, info.ID, record.Call.N, known, began})
		case record.Answer != nil && from[record.Answer.N] != "":
			shows(from[record.Answer.N], string(record.Answer.Value)+string(record.Answer.Error))
		}
		s.Note(ctx, record)
	}
	return nil
}
