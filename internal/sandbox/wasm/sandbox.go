// Package wasm is the default tier: QuickJS-ng as WebAssembly, in a worker process that is this same binary
// re-executed. WebAssembly memory is the inner wall, the killable process the outer one. Every program gets a fresh
// instance: on Linux a copy-on-write mapping of a sealed snapshot in which the guest runtime is already evaluated,
// elsewhere a copy of it.
package wasm

import (
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
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
)

// Options say where the tier finds its parts.
type Options struct {
	// Executable is the binary to re-execute with WorkerCommand; os.Executable() when empty.
	Executable string
	// Args come before WorkerCommand; for test binaries.
	Args []string
	// Dir keeps compiled code and snapshot between processes, readable by this user alone. Required.
	Dir string
	// MaxMemory is the highest memory limit that any program will have, in bytes; 1 GiB when zero.
	MaxMemory int64
}

// Sandbox is the wasm tier.
type Sandbox struct {
	opt      Options
	code     string // compilation cache
	snapshot string
	image    *os.File // sealed snapshot that workers inherit; nil where there is none
	info     sandbox.Info
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// Open prepares the tier. The first time on a machine it compiles the engine and builds the snapshot, in a process of
// its own, which takes about half a second; later it only opens them.
func Open(ctx context.Context, opt Options) (*Sandbox, error) {
	if opt.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this binary: %w", err)
		}
		opt.Executable = self
	}
	if opt.MaxMemory == 0 {
		opt.MaxMemory = 1 << 30
	}
	s := &Sandbox{opt: opt, info: sandbox.Info{Tier: "wasm", Engine: EngineHash(), Prelude: guest.Hash()}}
	dir := filepath.Join(opt.Dir, "wasm-"+s.key())
	s.code, s.snapshot = filepath.Join(dir, "code"), filepath.Join(dir, "snapshot")
	if err := privateDir(opt.Dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.snapshot); err != nil {
		if err := s.build(ctx, dir); err != nil {
			return nil, fmt.Errorf("prepare the wasm sandbox in %s: %w", opt.Dir, err)
		}
	}
	now := time.Now()
	os.Chtimes(dir, now, now) // in use: see sweep
	image, err := shareSnapshot(s.snapshot)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot: %w", err)
	}
	s.image = image
	return s, nil
}

// key names everything that compiled code and snapshot are made from.
func (s *Sandbox) key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		snapshotMagic, s.info.Engine, s.info.Prelude, moduleVersion("github.com/tetratelabs/wazero"), runtime.Version(), runtime.GOARCH,
	}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// build makes code and snapshot in a directory of their own and moves it into place: another process may do the same.
func (s *Sandbox) build(ctx context.Context, dir string) error {
	tmp, err := os.MkdirTemp(s.opt.Dir, "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	s.sweep()
	cmd, err := s.command(settings{Build: true, Code: filepath.Join(tmp, "code"), Snapshot: filepath.Join(tmp, "snapshot")})
	if err != nil {
		return err
	}
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
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Stat(s.snapshot); statErr != nil {
			return err
		}
	}
	return nil
}

// unused is how long what other versions made is kept, and what a killed build left.
const unused = 30 * 24 * time.Hour

// sweep removes what nothing has used for long.
func (s *Sandbox) sweep() {
	entries, err := os.ReadDir(s.opt.Dir)
	if err != nil {
		return // it can be swept another time
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), "wasm-") || strings.HasPrefix(e.Name(), "building-")
		if info, err := e.Info(); ours && err == nil && time.Since(info.ModTime()) > unused {
			os.RemoveAll(filepath.Join(s.opt.Dir, e.Name()))
		}
	}
}

func (s *Sandbox) command(set settings) (*exec.Cmd, error) {
	arg, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.opt.Executable, append(append([]string{}, s.opt.Args...), WorkerCommand, string(arg))...)
	// A worker is one busy thread, and off unix one that reads. Nothing of the harness's environment is its business.
	cmd.Env = append(workerEnv(), "GOMAXPROCS=2", "GOTRACEBACK=none")
	return cmd, nil
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	cmd, err := s.command(settings{Code: s.code, Snapshot: s.snapshot, Reserve: s.opt.MaxMemory})
	if err != nil {
		return nil, err
	}
	if s.image != nil {
		cmd.ExtraFiles = []*os.File{s.image}
	}
	runner, err := sandbox.StartProcess(cmd)
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	select {
	case f, ok := <-runner.Frames():
		if !ok {
			return nil, fmt.Errorf("start worker: %w", runner.Err())
		}
		if f.T == frame.Ready && f.Engine == s.info.Engine {
			return runner, nil
		}
		err = fmt.Errorf("start worker: %s is not the version that runs here (was it upgraded?): restart this process", s.opt.Executable)
	case <-ctx.Done():
		err = fmt.Errorf("start worker: %w", context.Cause(ctx))
	}
	runner.Kill()
	for range runner.Frames() {
	}
	return nil, err
}

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	if s.image == nil {
		return nil
	}
	return s.image.Close()
}
