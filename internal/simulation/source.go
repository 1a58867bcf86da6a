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

// Runs gives access to the recorded runs; *runs.Service implements it. Its methods are safe for concurrent use and end with their context.
type Runs interface {
	// List lists the runs that a caller may see, newest first.
	List(ctx context.Context, who auth.Identity, f journal.Filter) (runs []journal.RunInfo, next string, err error)
	// JournalPage returns at most limit records of a run that follow the record number after. It returns none at the end.
	JournalPage(ctx context.Context, id string, after int64, limit int) ([]journal.Record, error)
}

// Tasks gives access to the recorded tasks; *task.Service implements it.
type Tasks interface {
	// Tasks lists tasks, newest first.
	Tasks(ctx context.Context, f task.Filter) (tasks []task.Task, next string, err error)
}

// Source reads recorded calls. It is safe for concurrent use.
type Source struct {
	Runs    Runs
	Tasks   Tasks
	Catalog *catalog.Catalog
	Who     auth.Identity // caller who may see the runs
	Bounds  Bounds
}

// Bounds limits what a Source reads.
type Bounds struct {
	User string // user whose runs are read; empty for all users whom the caller may see
	// Session is the session whose runs are read; empty for all sessions.
	Session string
	Since   time.Time // earliest start of a run; zero for no limit
	Runs    int       // maximum number of runs, the newest first
	Calls   int       // maximum number of host calls of all runs together; 0 for no limit
	Bytes   int       // maximum size of a journal in bytes; 0 for no limit
	Args    int       // maximum size of the arguments of a call in bytes; 0 for no limit
	// Origins is the memory in bytes for the origins of values; 0 for origin.DefaultLimits.
	Origins int64
}

// Looked describes what was read and what was left out.
type Looked struct {
	Runs      int      `json:"runs" doc:"Runs that were read."`
	Calls     int      `json:"calls" doc:"Calls of tools and other requests to servers in them."`
	Truncated bool     `json:"truncated" doc:"There are recorded calls that were not looked at; unread says which."`
	Unread    []Unread `json:"unread" doc:"What was not looked at."`
}

// Unread is a run, a call or several runs that were left out.
type Unread struct {
	Run    string `json:"run,omitempty" doc:"A run; absent: several."`
	Call   int    `json:"call,omitempty" doc:"A call of it; absent: all."`
	Reason string `json:"reason" example:"runs before 2026-03-01 10:00:00 UTC: the newest 200 runs were read"`
}

// maxUnread is the maximum number of entries in Looked.Unread.
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

// errNoRuns reports Bounds that allow no run.
var errNoRuns = errors.New("no runs are asked for")

// list returns the runs to read, newest first. all reports that no older run of the same users and sessions is left out, so that no such run can
// be the origin of a value.
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

// journal returns the records of a run. If it returns none, reason tells why.
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

// sizeOf estimates the memory of a record in bytes.
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
