package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" help:"Sessions, the last used first." example:"sessions list"`
	Show   sessionsShowCmd   `cmd:"" help:"One session: when it was used, its tasks and files." example:"sessions show sales"`
	Delete sessionsDeleteCmd `cmd:"" help:"Cancel a session's tasks, and delete its history, runs and files." example:"sessions delete sales"`
}

type sessionsListCmd struct {
	User string `help:"Only of this user." placeholder:"ID"`
	page
}

func (c *sessionsListCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	all, next, err := tasks.Sessions(ctx, task.SessionFilter{UserID: c.User, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return c.explain(err)
	}
	defer a.more(next)
	const none, header = "no sessions; harness run makes one, harness exec --session NAME too", "SESSION\tUSER\tUSED\tTASKS\tEXPIRES"
	return answerList(a, map[string]any{"sessions": list(all), "next": next}, all, none, header, func(s task.Session) string {
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%s", s.ID, s.UserID, s.UsedAt.Local().Format(time.DateTime), s.Tasks, expiry(s))
	})
}

func expiry(s task.Session) string {
	if s.ExpiresAt.IsZero() {
		return "never"
	}
	return s.ExpiresAt.Local().Format(time.DateTime)
}

// sessionArg names a session of a user.
type sessionArg struct {
	ID   string `arg:"" help:"Session, as listed." names:"sessions"`
	User string `help:"Whose session." default:"local"`
}

func (s *sessionArg) find(ctx context.Context, a *app, tasks *task.Service) (task.Session, error) {
	if s.User == "" {
		return task.Session{}, usage(errors.New("--user is empty"))
	}
	found, _, err := tasks.Sessions(ctx, task.SessionFilter{UserID: s.User, ID: s.ID, Limit: 1})
	if err == nil && len(found) == 0 {
		all, _, _ := tasks.Sessions(ctx, task.SessionFilter{UserID: s.User, Limit: maxSimilar}) // an error only means that nothing is suggested
		var ids []string
		for _, other := range all {
			ids = append(ids, other.ID)
		}
		err = usage(fmt.Errorf("user %s has no session %q in %s; %s",
			s.User, s.ID, a.config.Store.Name(), meant(ident.Closest(s.ID, ids), "harness sessions list shows all")))
	}
	if err != nil {
		return task.Session{}, err
	}
	return found[0], nil
}

type sessionsShowCmd struct{ sessionArg }

func (c *sessionsShowCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	s, err := c.find(ctx, a, tasks)
	if err != nil {
		return err
	}
	all, err := h.Runs().ListFiles(ctx, s.UserID, s.ID, ".")
	if err != nil {
		return err
	}
	var bytes int64
	for _, f := range all {
		bytes += f.Size
	}
	return a.answer(map[string]any{"session": s, "files": fileLines(all)},
		"%s of %s\ncreated %s, used %s, expires %s\n%d tasks; harness tasks list --session %s\n%d files and directories, %d bytes; harness files ls %s\n",
		s.ID, s.UserID, s.CreatedAt.Local().Format(time.DateTime), s.UsedAt.Local().Format(time.DateTime), expiry(s), s.Tasks, s.ID, len(all), bytes, s.ID)
}

type sessionsDeleteCmd struct{ sessionArg }

func (c *sessionsDeleteCmd) Run(ctx context.Context, a *app, tasks *task.Service) error {
	s, err := c.find(ctx, a, tasks)
	if err != nil {
		return err
	}
	if err := tasks.DeleteSession(ctx, s.UserID, s.ID); err != nil {
		return err
	}
	a.record(ctx, a.config, telemetry.Event{UserID: s.UserID, SessionID: s.ID, Type: telemetry.DataDeletion, Severity: telemetry.Low})
	return a.answer(map[string]string{"deleted": s.ID, "user": s.UserID}, "deleted session %s of %s\n", s.ID, s.UserID)
}
