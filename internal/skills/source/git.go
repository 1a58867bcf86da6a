package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/versions"
)

const (
	maxClone      = 256 << 20 // maximum size of a fetched repository in bytes
	watchInterval = 100 * time.Millisecond
	maxSaid       = 2000 // maximum number of bytes of git's standard error in an error
)

// git takes the skills of a repository. It fetches one commit into a temporary repository that has no work tree, and reads the files from git's objects:
// nothing is checked out, so that neither hooks, filters, submodules nor links of the repository have any effect.
func (r *reading) git(ctx context.Context) error {
	program, err := process.Find("git", r.opt.Dir, r.opt.Environ)
	if err != nil {
		return errors.New("git is not installed, which reads repositories; install it, or add an archive of the repository")
	}
	dir, err := os.MkdirTemp(r.opt.Temp, "harness-skills-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := &gitCommands{program: program, dir: dir, environ: r.opt.Environ, most: maxClone}
	if _, err := g.run(ctx, nil, "init", "--quiet", "--bare", "--template=", "."); err != nil {
		return err
	}
	if err := g.fetch(ctx, r.place.repo, cmp.Or(r.place.ref, "HEAD")); err != nil {
		return err
	}
	commit, err := g.run(ctx, nil, "rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}")
	if err != nil {
		return err
	}
	origin := versions.Origin{Commit: strings.TrimSpace(string(commit))}
	t, err := g.tree(ctx, origin.Commit)
	if err != nil {
		return err
	}
	return r.takeUnder(ctx, t, origin)
}

// gitCommands runs commands of git in a temporary repository.
type gitCommands struct {
	program, dir string
	environ      []string
	most         int64 // maximum size of the repository in bytes
}

// safe are settings that keep git from executing anything but itself and the transport, whatever the repository or the server says.
var safe = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.askPass=", "credential.interactive=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
	"gc.auto=0", "maintenance.auto=false", "http.followRedirects=false", "transfer.bundleURI=false",
	"protocol.allow=never", "protocol.https.allow=always", "protocol.ssh.allow=always", "protocol.file.allow=always", "protocol.ext.allow=never",
}

func (g *gitCommands) command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, setting := range safe {
		all = append(all, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, g.program, append(all, args...)...)
	cmd.Dir, cmd.WaitDelay = g.dir, time.Second
	for _, v := range g.environ { // variables that would lead git to another repository, or trace into files
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "GIT_") || slices.Contains([]string{"GIT_SSH_COMMAND", "GIT_SSH", "GIT_SSL_CAINFO"}, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if !slices.ContainsFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "GIT_SSH") }) {
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never", "GIT_LFS_SKIP_SMUDGE=1", "GIT_DIR="+g.dir,
		"GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C")
	return cmd
}

// run runs a command and returns its standard output, of at most maxAll bytes.
func (g *gitCommands) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := g.command(ctx, args...)
	out := &bounded{most: maxAll, full: func() { cancel(errLarge(maxAll)) }}
	said := &process.Tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, said
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, clip.Text(clip.Visible(strings.TrimSpace(said.String())), maxSaid))
	}
	return out.Bytes(), nil
}

// fetch fetches one commit. It ends git if the repository becomes too large, because git has no such bound.
func (g *gitCommands) fetch(ctx context.Context, repo, ref string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for g.fits() == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchInterval):
			}
		}
		cancel(g.fits())
	}()
	_, err := g.run(ctx, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-commit-graph", "--no-auto-maintenance", "--end-of-options", repo, ref)
	cancel(nil)
	<-watched
	return cmp.Or(err, g.fits())
}

// fits returns an error if the repository is too large.
func (g *gitCommands) fits() error {
	if dirSize(g.dir) > g.most {
		return fmt.Errorf("the repository has more than %d bytes; add an archive of the skills", g.most)
	}
	return nil
}

// tree lists the files of a commit.
func (g *gitCommands) tree(ctx context.Context, commit string) (tree, error) {
	listing, err := g.run(ctx, nil, "ls-tree", "-r", "-z", "--long", "--full-tree", "--end-of-options", commit)
	if err != nil {
		return tree{}, err
	}
	t, objects := tree{nodes: map[string]node{}}, map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(listing), "\x00"), "\x00") {
		about, p, ok := strings.Cut(line, "\t")
		fields := strings.Fields(about) // mode, type, object, size
		if !ok || len(fields) != 4 {
			continue
		}
		n := node{}
		switch fields[0] {
		case "100644", "100755":
			if n.size, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
				return t, fmt.Errorf("read the list of git: %w", err)
			}
		case "120000":
			n.problem = noLink
		default:
			n.problem = "it is a submodule, and submodules are not fetched"
		}
		t.nodes[p], objects[p] = n, fields[2]
		if len(t.nodes) > maxEntries {
			return t, fmt.Errorf("it has more than %d files", maxEntries)
		}
	}
	t.read = func(ctx context.Context, paths []string) ([][]byte, error) {
		var wanted strings.Builder
		for _, p := range paths {
			wanted.WriteString(objects[p] + "\n")
		}
		out, err := g.run(ctx, strings.NewReader(wanted.String()), "cat-file", "--batch", "--buffer")
		if err != nil {
			return nil, err
		}
		return splitBatch(out, len(paths))
	}
	return t, nil
}

// splitBatch returns the contents in the output of git cat-file --batch: for each object a line with its size at the end, the content, and a line feed.
func splitBatch(out []byte, count int) (all [][]byte, err error) {
	r := bufio.NewReader(bytes.NewReader(out))
	for range count {
		line, err := r.ReadString('\n')
		fields := strings.Fields(line)
		if err != nil || len(fields) != 3 || fields[1] != "blob" {
			return nil, fmt.Errorf("git does not give a file: %q", visible(line))
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || size < 0 || size > int64(len(out)) {
			return nil, fmt.Errorf("git does not give a file: %q", visible(line))
		}
		content := make([]byte, size+1)
		if _, err := io.ReadFull(r, content); err != nil {
			return nil, fmt.Errorf("read a file from git: %w", err)
		}
		all = append(all, content[:size:size])
	}
	return all, nil
}

// bounded keeps at most a number of bytes. It calls full for more.
type bounded struct {
	bytes.Buffer
	most int
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full()
		return 0, errLarge(int64(b.most))
	}
	return b.Buffer.Write(p)
}

// ReadFrom hides the method of Buffer, which would bypass Write.
func (b *bounded) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{b}, r) }

// dirSize returns the size of the files below a directory in bytes. Files that disappear meanwhile do not count.
func dirSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}
