package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/wiring"
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
	defer a.more("sessions", next)
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
		err = usage(fmt.Errorf("user %s has no session %q in %s; harness sessions list shows all", s.User, s.ID, a.config.Store.URL))
	}
	if err != nil {
		return task.Session{}, err
	}
	return found[0], nil
}

type sessionsShowCmd struct{ sessionArg }

func (c *sessionsShowCmd) Run(ctx context.Context, a *app, h *wiring.Harness, tasks *task.Service) error {
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

type filesCmd struct {
	List filesListCmd `cmd:"" name:"ls" help:"Files of a session." example:"files ls sales"`
	Get  filesGetCmd  `cmd:"" help:"Copy a file of a session out, with the values of the tokens in it."`
	Put  filesPutCmd  `cmd:"" help:"Copy a file into a session, which is made if there is none."`
	Rm   filesRmCmd   `cmd:"" help:"Remove a file of a session." example:"files rm sales report.csv"`
}

// fileLine is a file as commands show it.
type fileLine struct {
	Path     string    `json:"path"`
	Dir      bool      `json:"dir,omitempty"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func fileLines(all []files.Entry) []fileLine {
	lines := []fileLine{}
	for _, f := range all {
		lines = append(lines, fileLine{f.Path, f.IsDir, f.Size, f.ModTime})
	}
	return lines
}

// inWorkspace is a path as programs have it, without /workspace.
func inWorkspace(p string) string {
	p = filepath.ToSlash(p)
	if p == "/workspace" {
		return "."
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p, "/workspace/"), "/"), ".")
}

type filesListCmd struct {
	sessionArg
	Path string `arg:"" optional:"" default:"." help:"Directory in /workspace."`
}

func (c *filesListCmd) Run(ctx context.Context, a *app, h *wiring.Harness, tasks *task.Service) error {
	s, err := c.find(ctx, a, tasks)
	if err != nil {
		return err
	}
	all, err := h.Runs().ListFiles(ctx, s.UserID, s.ID, inWorkspace(c.Path))
	if err != nil {
		return usage(err)
	}
	lines := fileLines(all)
	return answerList(a, map[string]any{"files": lines}, lines, "the session has no files", "SIZE\tMODIFIED\tPATH", func(f fileLine) string {
		name := f.Path
		if f.Dir {
			name += "/"
		}
		return fmt.Sprintf("%d\t%s\t%s", f.Size, f.Modified.Local().Format(time.DateTime), name)
	})
}

type filesGetCmd struct {
	sessionArg
	Path string `arg:"" help:"File in /workspace, as listed."`
	To   string `arg:"" optional:"" help:"Where to write it; - is standard output; by default a file of its name here."`
	Raw  bool   `help:"As it is on the disk, with tokens such as [EMAIL_1]."`
}

func (filesGetCmd) Help() string {
	return `In files of text, tokens are replaced by their values, as in answers.

Examples:
  harness files get sales report.csv
  harness files get sales results/summary.md - | less
  harness files get sales report.csv --raw ./tokens.csv`
}

// maxRestored is how many bytes of a file are looked through for tokens.
const maxRestored = 64 << 20

func (c *filesGetCmd) Run(ctx context.Context, a *app, h *wiring.Harness, tasks *task.Service) error {
	s, err := c.find(ctx, a, tasks)
	if err != nil {
		return err
	}
	data, err := h.Runs().ReadFile(s.UserID, s.ID, inWorkspace(c.Path), math.MaxInt32)
	if err != nil {
		return usage(err)
	}
	if !c.Raw && len(data) <= maxRestored && utf8.Valid(data) {
		text, err := h.Privacy().In(s.UserID, s.ID).Restore(ctx, string(data))
		if err != nil {
			return err
		}
		data = []byte(text)
	}
	if c.To == "-" {
		if a.flags.JSON {
			return usage(errors.New("--json has no place on standard output beside the file; name a file"))
		}
		_, err := a.Stdout.Write(data)
		return err
	}
	to := a.path(cmp.Or(c.To, path.Base(filepath.ToSlash(c.Path))))
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, path.Base(filepath.ToSlash(c.Path)))
	}
	write := disk.Replace
	if c.To == "" {
		write = disk.Create
	}
	if err := write(to, data, 0o600); errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("%s is there already; name the file to write", to))
	} else if err != nil {
		return usage(fmt.Errorf("write the file: %w", err))
	}
	return a.answer(map[string]any{"file": to, "bytes": len(data)}, "wrote %s, %d bytes\n", to, len(data))
}

type filesPutCmd struct {
	sessionArg
	File string `arg:"" help:"File to copy; - is standard input."`
	Path string `arg:"" optional:"" help:"Where in /workspace; by default the file's name. A directory that is there, or a name that ends with /, takes the file into it."`
}

func (filesPutCmd) Help() string {
	return `A file that is there is replaced. Programs read it with tokens in place of personal data.

Examples:
  harness files put sales orders.csv
  harness files put sales orders.csv data/
  curl -s https://example.com/orders.csv | harness files put sales - orders.csv`
}

func (c *filesPutCmd) Run(ctx context.Context, a *app, h *wiring.Harness, tasks *task.Service) error {
	if c.User == "" {
		return usage(errors.New("--user is empty"))
	}
	if c.File == "-" && (c.Path == "" || strings.HasSuffix(c.Path, "/")) {
		return usage(errors.New("standard input has no name; give the path in /workspace"))
	}
	var from io.Reader = interrupted{ctx, a.Stdin}
	if c.File != "-" {
		f, err := openFile(a.path(c.File))
		if err != nil {
			return usage(fmt.Errorf("read the file: %w", err))
		}
		defer f.Close()
		from = f
	}
	leave, err := tasks.EnterSession(ctx, c.User, c.ID)
	if err != nil {
		return usage(err)
	}
	defer leave()
	dir, err := h.Runs().Workspace(c.User, c.ID)
	if err != nil {
		return err
	}
	defer dir.Close()
	to := inWorkspace(cmp.Or(c.Path, filepath.Base(c.File)))
	if e, err := dir.Stat(to); strings.HasSuffix(c.Path, "/") || err == nil && e.IsDir {
		to = path.Join(to, filepath.Base(c.File))
	}
	size, err := dir.Receive(ctx, to, 0, from)
	if err == nil {
		err = dir.Complete(ctx, to)
	}
	if err != nil {
		return usage(errors.Join(err, dir.Abort(to)))
	}
	return a.answer(map[string]any{"path": "/workspace/" + to, "bytes": size}, "wrote /workspace/%s of session %s, %d bytes\n", to, c.ID, size)
}

// openFile opens what is no directory.
func openFile(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), f.Close())
	}
	return f, nil
}

type filesRmCmd struct {
	sessionArg
	Path      string `arg:"" help:"File in /workspace, as listed."`
	Recursive bool   `short:"r" help:"Also a directory, with everything in it."`
}

func (c *filesRmCmd) Run(ctx context.Context, a *app, h *wiring.Harness, tasks *task.Service) error {
	s, err := c.find(ctx, a, tasks)
	if err != nil {
		return err
	}
	dir, err := h.Runs().Workspace(s.UserID, s.ID)
	if err != nil {
		return err
	}
	defer dir.Close()
	at := inWorkspace(c.Path)
	if e, err := dir.Stat(at); err != nil {
		return usage(err)
	} else if e.IsDir && !c.Recursive {
		return usage(fmt.Errorf("/workspace/%s is a directory; --recursive removes it with everything in it", at))
	}
	if err := dir.Remove(ctx, at, c.Recursive, false); err != nil {
		return usage(err)
	}
	return a.answer(map[string]string{"removed": "/workspace/" + at}, "removed /workspace/%s of session %s\n", at, s.ID)
}
