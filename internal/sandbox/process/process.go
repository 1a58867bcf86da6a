package process

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
)

// Options say where the tier finds its parts.
type Options struct {
	// Program and Args are a command that carries out jail.LauncherCommand and jail.ExecCommand. Required.
	Program string
	Args    []string
	// Node is the path of Node.js; empty: node in the directories of PATH.
	Node string
	// Dir keeps the runner, readable by this user alone. Required.
	Dir string
	// Memory is the memory of a program, in bytes; 100 MiB when zero.
	Memory int64
	// Without are walls of package jail that the tier goes without where the machine does not have them.
	Without []string
	// Bare starts runners without any walls, to measure what these cost. Never execute programs of others so.
	Bare bool
}

// Sandbox is the process tier.
type Sandbox struct {
	opt     Options
	info    sandbox.Info
	machine *node.Machine
	program jail.Program
	jail    *jail.Launcher
	missing atomic.Pointer[jail.Missing]
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// The paths in the root of a runner.
const (
	nodePath   = "/node"
	runnerPath = "/runner.cjs"
	cachePath  = "/code.cache"
)

// Open finds Node.js and prepares the tier. It starts a runner once, for the walls and the code cache: an error that wraps jail.ErrWalls names
// walls that are missing.
func Open(ctx context.Context, opt Options) (*Sandbox, error) {
	script, err := node.Script()
	if err != nil {
		return nil, err
	}
	return open(ctx, opt, script)
}

func open(ctx context.Context, opt Options, text []byte) (*Sandbox, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("the process tier needs Linux")
	}
	machine, err := node.Find(ctx, opt.Node)
	if err != nil {
		return nil, err
	}
	opt.Memory = cmp.Or(opt.Memory, 100<<20)
	script, err := writeScript(opt.Dir, text)
	if err != nil {
		return nil, err
	}
	options := node.Options(opt.Memory)
	p := jail.Program{
		Path:   nodePath,
		Args:   append(append([]string{"node"}, options...), runnerPath, cachePath),
		Env:    machine.Env(),
		Files:  map[string]string{nodePath: machine.Path, runnerPath: script},
		Memory: node.Data(opt.Memory), Without: opt.Without,
	}
	for _, library := range machine.Libraries {
		if p.Files[library], err = filepath.EvalSymlinks(library); err != nil {
			return nil, err
		}
	}
	s := &Sandbox{
		opt: opt, machine: machine, info: sandbox.Info{Tier: "process", Engine: machine.Engine(), Prelude: guest.Hash()},
		jail: jail.NewLauncher(opt.Program, opt.Args...),
	}
	cache := node.NewCodeCache(opt.Dir, text, machine.Version, options)
	if err := s.prepare(ctx, p, cache); err != nil {
		s.jail.Close()
		return nil, err
	}
	return s, nil
}

// prepare starts a runner, and has the next ones take the code cache that it makes if there is none yet.
func (s *Sandbox) prepare(ctx context.Context, p jail.Program, cache node.CodeCache) error {
	use := func(path string) {
		if path != "" {
			p.Files[cachePath] = path
		}
		s.program = p
	}
	use(cache.Find())
	runner, made, err := s.start(ctx)
	if err != nil {
		return err
	}
	end(runner)
	if len(made) == 0 {
		return nil
	}
	path, err := cache.Store(made)
	if err != nil {
		return err
	}
	use(path)
	return nil
}

// writeScript keeps the runner in a file, whose name says what is in it.
func writeScript(dir string, text []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	path := filepath.Join(dir, "runner-"+hex.EncodeToString(sum[:8])+".cjs")
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return path, nil
	}
	return path, disk.Replace(path, text, 0o644)
}

// startTime is more than any start takes.
const startTime = time.Minute

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	runner, _, err := s.start(ctx)
	return runner, err
}

// start starts a runner. made is the code cache that it made, if it found none.
func (s *Sandbox) start(ctx context.Context) (r sandbox.Runner, made []byte, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, startTime, errors.New("the Node.js process was not ready in time"))
	defer stop()
	cmd, launch, err := s.command()
	if err != nil {
		return nil, nil, err
	}
	runner, err := sandbox.StartProcess(cmd, launch)
	if err != nil {
		return nil, nil, fmt.Errorf("start Node.js: %w", err)
	}
	select {
	case f, ok := <-runner.Frames():
		if !ok {
			return nil, nil, fmt.Errorf("start Node.js: %w", explain(runner.Err()))
		}
		if f.T == frame.Ready && f.Engine == s.machine.Version {
			s.missing.Store(&f.Missing)
			return runner, f.Cache, nil
		}
		err = fmt.Errorf("start Node.js: %s is not version %s any more: restart this process", s.machine.Path, s.machine.Version)
	case <-ctx.Done():
		err = fmt.Errorf("start Node.js: %w", context.Cause(ctx))
	}
	end(runner)
	return nil, nil, err
}

// command is what starts a runner, and how it is started.
func (s *Sandbox) command() (cmd *exec.Cmd, start func(*exec.Cmd) error, err error) {
	p := s.program
	if s.opt.Bare {
		args := make([]string, len(p.Args))
		for i, arg := range p.Args {
			args[i] = cmp.Or(p.Files[arg], arg)
		}
		missing, err := json.Marshal(jail.None())
		return &exec.Cmd{Path: p.Files[p.Path], Args: args, Env: append(p.Env, jail.MissingVariable+"="+string(missing))}, process.Start, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command(s.opt.Program, append(slices.Clone(s.opt.Args), jail.ExecCommand, string(text))...)
	cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	return cmd, s.jail.Start, nil
}

// explain tells a runner that went without its walls.
func explain(err error) error {
	if _, walls, found := strings.Cut(err.Error(), jail.ErrWalls.Error()+": "); found {
		return fmt.Errorf("%w: %s (sandbox.process.without names walls that you can do without)", jail.ErrWalls, strings.TrimSpace(walls))
	}
	return err
}

func end(r sandbox.Runner) {
	r.Kill()
	for range r.Frames() {
	}
}

// Missing are the walls that the last runner has not, and that Options.Without allows to be missing.
func (s *Sandbox) Missing() jail.Missing { return *s.missing.Load() }

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	s.jail.Close()
	return nil
}
