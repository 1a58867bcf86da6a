package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

type filesCmd struct {
	List filesListCmd `cmd:"" name:"ls" help:"Files of a session, or of a user's skills." example:"files ls sales"`
	Get  filesGetCmd  `cmd:"" help:"Copy a file out, with the values of the tokens in it."`
	Put  filesPutCmd  `cmd:"" help:"Copy a file in, into a session, which is made if there is none, or into a user's skills."`
	Rm   filesRmCmd   `cmd:"" help:"Remove a file." example:"files rm sales report.csv"`
}

// filesArg names a session of a user, or the user's skills.
type filesArg struct {
	ID   string `arg:"" help:"Session, as listed, or /skills." names:"sessions"`
	User string `help:"Whose session or skills." default:"local"`
}

// skillsRoot names a user's skills in place of a session. No session has this name.
const skillsRoot = "/skills"

// fileArea is a directory of files that commands work on.
type fileArea struct {
	dir     *files.Dir
	root    string         // root directory in programs
	id      string         // name in commands
	of      string         // owner, as text for people
	restore files.Restorer // nil for skills, which have no tokens
	close   func()
}

// open opens the files of the session, or the skills of the user. If write is true, it creates a missing session.
func (f *filesArg) open(ctx context.Context, a *app, h harness, tasks *task.Service, write bool) (*fileArea, error) {
	switch {
	case f.User == "":
		return nil, usage(errors.New("--user is empty"))
	case f.ID == skillsRoot:
		saved, err := h.Skills()
		if err != nil {
			return nil, err
		}
		dir, err := saved.Dir(f.User)
		if err != nil {
			return nil, err
		}
		return &fileArea{dir: dir, root: skillsRoot, id: skillsRoot, of: "the skills of " + f.User, close: dir.Close}, nil
	case strings.HasPrefix(f.ID, skillsRoot+"/"):
		return nil, usage(fmt.Errorf("give the path of a skill behind %s: %[1]s %s", skillsRoot, strings.TrimPrefix(f.ID, skillsRoot+"/")))
	}
	leave := func() {}
	if write {
		var err error
		if leave, err = tasks.EnterSession(ctx, f.User, f.ID); err != nil {
			return nil, usage(err)
		}
	} else if _, err := (&sessionArg{f.ID, f.User}).find(ctx, a, tasks); err != nil {
		return nil, err
	}
	dir, err := h.Runs().Workspace(f.User, f.ID)
	if err != nil {
		leave()
		return nil, err
	}
	area := &fileArea{dir: dir, root: "/workspace", id: f.ID, of: "session " + f.ID, close: func() {
		dir.Close()
		leave()
	}}
	if private := h.Privacy().In(f.User, f.ID); private.On() {
		area.restore = private
	}
	return area, nil
}

// path returns a path without the root that programs write before it.
func (f *fileArea) path(p string) string {
	p = filepath.ToSlash(p)
	if p == f.root {
		return "."
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p, f.root+"/"), "/"), ".")
}

// unknown explains an error about a path that a user named.
func (f *fileArea) unknown(ctx context.Context, p string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return usage(err)
	}
	all, _ := f.dir.ReadDir(ctx, ".", true) // an error only means that nothing is suggested
	var paths, names []string
	for _, e := range all[:min(len(all), maxSimilar)] {
		paths, names = append(paths, e.Path), append(names, path.Base(e.Path))
	}
	found := ident.Closest(p, paths)
	if len(found) == 0 { // the file may be in another directory
		closest := ident.Closest(path.Base(p), names)
		for i, name := range names {
			if slices.Contains(closest, name) {
				found = append(found, paths[i])
			}
		}
	}
	return usage(fmt.Errorf("there is no %s/%s in %s; %s", f.root, p, f.of, meant(found[:min(len(found), 3)], "harness files ls "+f.id+" shows all")))
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

type filesListCmd struct {
	filesArg
	Path string `arg:"" optional:"" default:"." help:"Directory in /workspace, or in /skills."`
}

func (filesListCmd) Help() string {
	return `Examples:
  harness files ls sales
  harness files ls sales results
  harness files ls /skills`
}

func (c *filesListCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	area, err := c.open(ctx, a, h, tasks, false)
	if err != nil {
		return err
	}
	defer area.close()
	all, err := area.dir.ReadDir(ctx, area.path(c.Path), true)
	if area.path(c.Path) == "." && errors.Is(err, fs.ErrNotExist) { // no file was written yet
		err = nil
	}
	if err != nil {
		return area.unknown(ctx, area.path(c.Path), err)
	}
	lines := fileLines(all)
	return answerList(a, map[string]any{"files": lines}, lines, "there are no files in "+area.of, "SIZE\tMODIFIED\tPATH", func(f fileLine) string {
		name := f.Path
		if f.Dir {
			name += "/"
		}
		return fmt.Sprintf("%d\t%s\t%s", f.Size, f.Modified.Local().Format(time.DateTime), name)
	})
}

type filesGetCmd struct {
	filesArg
	Path string `arg:"" help:"File in /workspace, or in /skills, as listed."`
	To   string `arg:"" optional:"" help:"Where to write it; - is standard output; by default a file of its name here."`
	Raw  bool   `help:"As it is on the disk, with tokens such as pii_1e@d1.pii.invalid."`
}

func (filesGetCmd) Help() string {
	return `In files of text, tokens are replaced by their values, as in answers.

Examples:
  harness files get sales report.csv
  harness files get sales results/summary.md - | less
  harness files get sales report.csv --raw ./tokens.csv
  harness files get /skills crm/dedupe.js`
}

func (c *filesGetCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	area, err := c.open(ctx, a, h, tasks, false)
	if err != nil {
		return err
	}
	defer area.close()
	if c.Raw {
		area.restore = nil
	}
	from, err := area.dir.Content(ctx, area.path(c.Path), area.restore, nil)
	if e, failed := area.dir.Stat(area.path(c.Path)); err != nil && failed == nil && e.IsDir {
		return usage(fmt.Errorf("%s/%s is a directory; name a file in it: harness files ls %s %s", area.root, e.Path, c.ID, e.Path))
	}
	if err != nil {
		return area.unknown(ctx, area.path(c.Path), err)
	}
	defer from.Close()
	name := path.Base(area.path(c.Path))
	if c.To == "-" {
		if a.flags.JSON {
			return usage(errors.New("--json has no place on standard output beside the file; name a file"))
		}
		_, err := io.Copy(a.Stdout, from)
		return err
	}
	progress := a.progress("copying " + name)
	defer progress.stop()
	to := a.path(cmp.Or(c.To, name))
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, name)
	}
	write := disk.ReplaceFrom
	if c.To == "" {
		write = disk.CreateFrom
	}
	err = write(to, progress.reading(from, from.Size, ""), 0o600)
	progress.stop()
	if errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("%s is there already; name the file to write", to))
	} else if err != nil {
		return usage(fmt.Errorf("write the file: %w", err))
	}
	return a.answer(map[string]any{"file": to, "bytes": from.Size}, "wrote %s, %d bytes\n", to, from.Size)
}

type filesPutCmd struct {
	filesArg
	File string `arg:"" help:"File to copy; - is standard input."`
	Path string `arg:"" optional:"" help:"Where in /workspace, or in /skills; by default the file's name. A directory that is there, or a name that ends with /, takes the file into it."`
}

func (filesPutCmd) Help() string {
	return `A file that is there is replaced. Programs read it with tokens in place of personal data.

Examples:
  harness files put sales orders.csv
  harness files put sales orders.csv data/
  curl -s https://example.com/orders.csv | harness files put sales - orders.csv
  harness files put /skills dedupe.js crm/`
}

func (c *filesPutCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	if c.File == "-" && (c.Path == "" || strings.HasSuffix(c.Path, "/")) {
		return usage(errors.New("standard input has no name; give the path that the file is to have"))
	}
	var from io.Reader = interrupted{ctx, a.Stdin}
	if c.File != "-" {
		f, err := a.openFile(a.path(c.File))
		if err != nil {
			return usage(fmt.Errorf("read the file: %w", err))
		}
		defer f.Close()
		from = f
	}
	area, err := c.open(ctx, a, h, tasks, true)
	if err != nil {
		return err
	}
	defer area.close()
	to := area.path(cmp.Or(c.Path, filepath.Base(c.File)))
	if e, err := area.dir.Stat(to); strings.HasSuffix(c.Path, "/") || err == nil && e.IsDir {
		to = path.Join(to, filepath.Base(c.File))
	}
	progress := a.progress("copying " + path.Base(to))
	size, _, err := area.dir.WriteFrom(ctx, to, progress.reading(from, sizeOf(from), ""))
	progress.stop()
	if err != nil {
		return usage(err)
	}
	return a.answer(map[string]any{"path": area.root + "/" + to, "bytes": size}, "wrote %s/%s of %s, %d bytes\n", area.root, to, area.of, size)
}

// sizeOf returns the size of a regular file in bytes, or 0 for anything else.
func sizeOf(r io.Reader) int64 {
	f, ok := r.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// openPath opens a file of the command's user.
func (a *app) openPath(name string) (fs.File, error) {
	if a.served != nil {
		return a.served.session.Open(name)
	}
	return os.Open(name)
}

// readFile reads a file of the command's user.
func (a *app) readFile(name string) ([]byte, error) {
	if a.served == nil {
		return os.ReadFile(name)
	}
	f, err := a.openPath(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// openFile opens a file and returns an error for a directory.
func (a *app) openFile(name string) (fs.File, error) {
	f, err := a.openPath(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), f.Close())
	}
	return f, nil
}

type filesRmCmd struct {
	filesArg
	Path      string `arg:"" help:"File in /workspace, or in /skills, as listed."`
	Recursive bool   `short:"r" help:"Also a directory, with everything in it."`
}

func (c *filesRmCmd) Run(ctx context.Context, a *app, h harness, tasks *task.Service) error {
	area, err := c.open(ctx, a, h, tasks, false)
	if err != nil {
		return err
	}
	defer area.close()
	at := area.path(c.Path)
	if e, err := area.dir.Stat(at); err != nil {
		return area.unknown(ctx, at, err)
	} else if e.IsDir && !c.Recursive {
		return usage(fmt.Errorf("%s/%s is a directory; --recursive removes it with everything in it", area.root, at))
	}
	if err := area.dir.Remove(ctx, at, c.Recursive, false); err != nil {
		return usage(err)
	}
	return a.answer(map[string]string{"removed": area.root + "/" + at}, "removed %s/%s of %s\n", area.root, at, area.of)
}

// maxTold is the maximum number of written files that are named.
const maxTold = 5

// tellWritten prints where the files are that a run has written. For a run without a session, it prints that the files are removed with the run.
func (a *app) tellWritten(all []files.Entry, session, user string) {
	var names []string
	for _, f := range all {
		if !f.IsDir {
			names = append(names, f.Path)
		}
	}
	if len(names) == 0 {
		return
	}
	whose := ""
	if user != "" && user != runs.DefaultUser {
		whose = " --user " + user
	}
	for _, name := range names[:min(len(names), maxTold)] {
		if session == "" {
			fmt.Fprintf(a.Stderr, "harness: /workspace/%s is removed with its run; --keep or --session NAME keeps it\n", name)
		} else {
			fmt.Fprintf(a.Stderr, "harness: wrote /workspace/%s; harness files get %s %s%s\n", name, session, name, whose)
		}
	}
	if more := len(names) - maxTold; more > 0 && session == "" {
		fmt.Fprintf(a.Stderr, "harness: and %d more files\n", more)
	} else if more > 0 {
		fmt.Fprintf(a.Stderr, "harness: and %d more files; harness files ls %s%s\n", more, session, whose)
	}
}
