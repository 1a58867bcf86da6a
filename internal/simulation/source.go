package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// Runs are the recorded runs; *runs.Service has them. Its methods are safe for concurrent use and end with their context.
type Runs interface {
	// List lists the runs that a caller may see, newest first.
	List(ctx context.Context, who auth.Identity, f journal.Filter) (runs []journal.RunInfo, next string, err error)
	// JournalPage returns the records of a run behind the one numbered after: at most limit, and none at the end.
	JournalPage(ctx context.Context, id string, after int64, limit int) ([]journal.Record, error)
}

// Tasks are the recorded tasks; *task.Service has them.
type Tasks interface {
	// Tasks lists tasks, newest first.
	Tasks(ctx context.Context, f task.Filter) (tasks []task.Task, next string, err error)
}

// Source reads recorded calls. It is safe for concurrent use.
type Source struct {
	Runs    Runs
	Tasks   Tasks
	Catalog *catalog.Catalog
	Who     auth.Identity // the caller, whose runs are read
	Bounds  Bounds
}

// Bounds are what a Source reads at most.
type Bounds struct {
	User string // runs of this user; empty: of all whom the caller may see
	// Session is the one whose runs are read; empty: all.
	Session string
	Since   time.Time // runs that began since then; zero: all
	Runs    int       // the newest runs
	Calls   int       // host calls of the runs together; 0: no bound
	Bytes   int       // bytes of a journal; 0: no bound
	Args    int       // bytes of the arguments of a call; 0: no bound
	// Origins is the memory in bytes for where values come from; 0: origin.DefaultLimits.
	Origins int64
}

// Looked is what was read.
type Looked struct {
	Runs      int      `json:"runs" doc:"Runs that were read."`
	Calls     int      `json:"calls" doc:"Calls of tools and other requests to servers in them."`
	Truncated bool     `json:"truncated" doc:"There are recorded calls that were not looked at; unread says which."`
	Unread    []Unread `json:"unread" doc:"What was not looked at."`
}

// Unread is what was not looked at.
type Unread struct {
	Run    string `json:"run,omitempty" doc:"A run; absent: several."`
	Call   int    `json:"call,omitempty" doc:"A call of it; absent: all."`
	Reason string `json:"reason" example:"runs before 2026-03-01 10:00:00 UTC: the newest 200 runs were read"`
}

// maxUnread is how much of what was not read is named.
const maxUnread = 100

func (l *Looked) miss(u Unread) {
	l.Truncated = true
	switch {
	case len(l.Unread) < maxUnread:
		l.Unread = append(l.Unread, u)
	case len(l.Unread) == maxUnread:
		l.Unread = append(l.Unread, Unread{Reason: fmt.Sprintf("there are more than these %d", maxUnread)})
	}
}

// errNoRuns reports a bound that reads nothing.
var errNoRuns = errors.New("no runs are asked for")

// list is the runs to read, newest first. all says that these are all runs that the caller may see, so that nothing was said before them.
func (s *Source) list(ctx context.Context, looked *Looked) (infos []journal.RunInfo, all bool, err error) {
	if s.Bounds.Runs < 1 {
		return nil, false, errNoRuns
	}
	older := func(before time.Time, reason string) {
		looked.miss(Unread{Reason: fmt.Sprintf("runs before %s: %s", before.UTC().Format("2006-01-02 15:04:05 MST"), reason)})
	}
	calls := 0
	for filter := (journal.Filter{User: s.Bounds.User, Session: s.Bounds.Session}); ; {
		filter.Limit = min(s.Bounds.Runs-len(infos), 1000)
		page, next, err := s.Runs.List(ctx, s.Who, filter)
		if err != nil {
			return nil, false, err
		}
		for _, info := range page {
			if info.Started.Before(s.Bounds.Since) {
				return infos, false, nil
			}
			if calls += info.Calls; s.Bounds.Calls > 0 && calls > s.Bounds.Calls {
				at := info.Started
				if len(infos) > 0 {
					at = infos[len(infos)-1].Started
				}
				older(at, fmt.Sprintf("together with the next one, the newest %d runs have more than %d calls", len(infos), s.Bounds.Calls))
				return infos, false, nil
			}
			infos = append(infos, info)
		}
		if filter.Cursor = next; next == "" {
			return infos, true, nil
		}
		if len(infos) >= s.Bounds.Runs {
			older(infos[len(infos)-1].Started, fmt.Sprintf("the newest %d runs were read", len(infos)))
			return infos, false, nil
		}
	}
}

// journal is the records of a run; reason says why there are none.
func (s *Source) journal(ctx context.Context, id string) (records []journal.Record, reason string, err error) {
	size, after := 0, int64(0)
	for {
		page, err := s.Runs.JournalPage(ctx, id, after, 1000)
		if err != nil {
			return nil, "", err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if size += sizeOf(r); s.Bounds.Bytes > 0 && size > s.Bounds.Bytes {
				return nil, fmt.Sprintf("its journal has more than %d MiB", s.Bounds.Bytes>>20), nil
			}
		}
		records, after = append(records, page...), page[len(page)-1].Seq
	}
	if len(records) == 0 {
		return nil, "it was deleted meanwhile", nil
	}
	return records, "", nil
}

// sizeOf is about the memory of a record in bytes.
func sizeOf(r journal.Record) int {
	size := 256
	switch {
	case r.Start != nil:
		size += len(r.Start.Source) + len(r.Start.Program) + len(r.Start.Map)
	case r.Call != nil:
		size += len(r.Call.Args)
	case r.Answer != nil:
		size += len(r.Answer.Value) + len(r.Answer.Error) + len(r.Answer.Beside)
	case r.Log != nil:
		size += len(r.Log.Text)
	case r.End != nil:
		size += len(r.End.Output)
	}
	return size
}
