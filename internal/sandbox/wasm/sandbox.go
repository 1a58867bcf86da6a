package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

// Options are the settings of the tier.
type Options struct {
	// Program is the program that workers execute, with worker.Command. Its main calls WorkerMain. If Program is nil, workers execute this binary.
	Program process.Self
	// Dir is the directory that keeps compiled code and snapshots from one process to the next. Only this user can read it. Dir is required.
	Dir string
	// MaxMemory is the highest memory limit that any program will have, in bytes; 1 GiB when zero.
	MaxMemory int64
	// Bare starts workers without the walls of the operating system, to measure the cost of the walls. Never execute other people's programs
	// this way.
	Bare bool
}

// buildCommand follows worker.Command and comes before the directory to build in.
const buildCommand = "build"

// WorkerMain executes worker.Command with the arguments args and returns the exit code. With buildCommand it builds the directory that workers
// start from.
func WorkerMain(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 2 || args[0] != buildCommand {
		return worker.Main(args, stdin, stdout, stderr)
	}
	prelude, err := guest.Bundle()
	if err == nil {
		err = worker.Build(context.Background(), args[1], prelude, guest.Libraries())
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// Sandbox is the wasm tier.
type Sandbox struct {
	opt   Options
	dir   string   // directory that workers start from
	image *os.File // sealed snapshot that workers inherit; may be nil
	info  sandbox.Info
	jail  *jail.Launcher

	missing atomic.Pointer[jail.Missing]
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// Open prepares the tier. The first call on a machine compiles the engine and builds the snapshot, in a process of its own, which takes about
// half a second. Later calls only open the results.
func Open(ctx context.Context, opt Options) (*Sandbox, error) {
	if opt.Program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this binary: %w", err)
		}
		opt.Program = process.SelfAt(self)
	}
	opt.MaxMemory = cmp.Or(opt.MaxMemory, 1<<30)
	s := &Sandbox{opt: opt, info: sandbox.Info{Tier: "wasm", Engine: quickjs.SHA256, Prelude: guest.Hash()}}
	s.dir = filepath.Join(opt.Dir, "wasm-"+s.key())
	if err := disk.Private(opt.Dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.dir); err != nil {
		if err := s.build(ctx); err != nil {
			return nil, fmt.Errorf("prepare the wasm sandbox in %s: %w", opt.Dir, err)
		}
	}
	disk.Use(s.dir)
	image, err := worker.ShareSnapshot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot: %w; remove %s to build it again", err, s.dir)
	}
	s.image = image
	s.jail = jail.NewLauncher(s.Program)
	return s, nil
}

// key returns a hash of everything that determines the files in the directory that workers start from.
func (s *Sandbox) key() string {
	sum := sha256.New()
	fmt.Fprintln(sum, worker.Version, s.info.Engine, s.info.Prelude, moduleVersion("github.com/tetratelabs/wazero"),
		runtime.Version(), runtime.GOARCH, cpu.X86, cpu.ARM64)
	// Each version of the embedded program has its own name. A program does not find the machine code that another one has compiled.
	program, _ := s.opt.Program()
	fmt.Fprintln(sum, filepath.Base(program))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// build makes the directory s.dir under another name and then renames it, because another process may build it at the same time.
func (s *Sandbox) build(ctx context.Context) error {
	tmp, err := os.MkdirTemp(s.opt.Dir, "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	disk.Sweep(s.opt.Dir, "wasm-", "building-") // directories of other versions and of interrupted builds
	program, args := s.Program()
	cmd := s.command(program, append(args, buildCommand, tmp)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := process.Start(cmd); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("build the snapshot: %w: %s", err, strings.TrimSpace(stderr.String())))
	}
	if err := os.Rename(tmp, s.dir); err != nil {
		if _, statErr := os.Stat(s.dir); statErr != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	// A worker has one busy thread and, except on Unix, one that reads. It gets nothing of the harness's environment.
	cmd.Env = append(workerEnv(), "GOMAXPROCS=2", "GOTRACEBACK=none")
	return cmd
}

// Program returns the program of a worker and its first arguments. The program also executes jail.LauncherCommand and jail.ExecCommand.
func (s *Sandbox) Program() (program string, args []string) {
	program, args = s.opt.Program()
	return program, append(args, worker.Command)
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	// The worker starts in the directory, so that programs cannot learn a path of this machine.
	settings, err := json.Marshal(worker.Settings{Dir: ".", Reserve: s.opt.MaxMemory, Bare: s.opt.Bare})
	if err != nil {
		return nil, err
	}
	program, args := s.Program()
	cmd := s.command(program, append(args, string(settings))...)
	cmd.Dir = s.dir
	if s.image != nil {
		cmd.ExtraFiles = []*os.File{s.image}
	}
	launch := s.jail.Start
	if s.opt.Bare {
		launch = process.Start
	}
	runner, err := sandbox.StartProcess(cmd, launch)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	select {
	case f, ok := <-runner.Frames():
		if !ok {
			return nil, fmt.Errorf("start worker: %w", runner.Err())
		}
		if f.T == frame.Ready && f.Engine == s.info.Engine {
			missing := jail.Missing{}
			maps.Copy(missing, f.Missing)
			s.missing.Store(&missing)
			return runner, nil
		}
		err = fmt.Errorf("start worker: %s is not the version that runs here (was it upgraded?): restart this process", program)
	case <-ctx.Done():
		err = fmt.Errorf("start worker: %w", context.Cause(ctx))
	}
	runner.Kill()
	for range runner.Frames() {
	}
	return nil, err
}

// Missing returns the walls of the operating system that the last started runner lacks; nil before the first start.
func (s *Sandbox) Missing() jail.Missing {
	if missing := s.missing.Load(); missing != nil {
		return *missing
	}
	return nil
}

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	s.jail.Close()
	if s.image == nil {
		return nil
	}
	return s.image.Close()
}
