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

// Options configure the tier.
type Options struct {
	// Program is the program that executes jail.LauncherCommand and jail.ExecCommand. Required.
	Program process.Self
	// Node is the path of Node.js; empty: search in PATH.
	Node string
	// Dir is the directory of the runner's file, readable only by this user. Required.
	Dir string
	// Memory is the memory of a program in bytes; 0: 100 MiB.
	Memory int64
	// Without is the list of the walls of package jail that may be missing if the machine does not have them.
	Without []string
	// Bare starts runners without any walls, to measure the cost of the walls. Never execute other people's programs with it.
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

// The paths in the root directory of a runner.
const (
	nodePath   = "/node"
	runnerPath = "/runner.cjs"
	cachePath  = "/code.cache"
)

// Open finds Node.js and prepares the tier. It starts a runner once, to check the walls and to make the code cache. An error that wraps
// jail.ErrWalls names the missing walls.
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
		jail: jail.NewLauncher(opt.Program),
	}
	cache := node.NewCodeCache(opt.Dir, text, machine.Version, options)
	if err := s.prepare(ctx, p, cache); err != nil {
		s.jail.Close()
		return nil, err
	}
	return s, nil
}

// prepare starts a runner. Later runners load the code cache that already existed, or else the one that this runner made.
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

// writeScript writes the runner to a file whose name has the hash of its content.
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

// startTime is the timeout for starting a runner. It is longer than any runner should take to start.
const startTime = time.Minute

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	runner, _, err := s.start(ctx)
	return runner, err
}

// start starts a runner. made is the code cache that the runner made if it found none.
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

// command returns the command that starts a runner, and the function that starts the command.
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
	path, args := s.opt.Program()
	cmd = exec.Command(path, append(args, jail.ExecCommand, string(text))...)
	cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	return cmd, s.jail.Start, nil
}

// explain adds advice to the error of a runner that could not raise its walls.
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

// Missing returns the walls that the last runner lacks, as Options.Without allows.
func (s *Sandbox) Missing() jail.Missing { return *s.missing.Load() }

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	s.jail.Close()
	return nil
}
