package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

//go:embed bare.js
var bareRuntime []byte

// inBare runs scripts in the engine of the wasm tier. The runtime around them only prints.
type inBare struct {
	pool     *sandbox.Pool
	box      *bareSandbox
	sequence atomic.Int64
}

func openBare(ctx context.Context, o options) (place, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(o.out, "cache", "bare")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := worker.Build(ctx, dir, bareRuntime, []byte("var __libraries = {}")); err != nil {
		return nil, fmt.Errorf("build the bare engine: %w", err)
	}
	image, err := worker.ShareSnapshot(dir)
	if err != nil {
		return nil, err
	}
	box := &bareSandbox{self: self, dir: dir, image: image, jail: jail.NewLauncher(process.SelfAt(self, worker.Command))}
	return &inBare{pool: openPool(box, o), box: box}, nil
}

func (*inBare) name() string { return "bare" }
func (*inBare) web() bool    { return false }

func (b *inBare) close() {
	b.pool.Close()
	b.box.Close()
}

func (b *inBare) run(ctx context.Context, _ int, _ *test, s *script) *outcome {
	scripts, err := json.Marshal([]string{s.setup, s.code})
	if err != nil {
		return &outcome{phase: "crash", message: err.Error()}
	}
	text, err := json.Marshal(frame.Program{Code: string(scripts)})
	if err != nil {
		return &outcome{phase: "crash", message: err.Error()}
	}
	return execute(ctx, b.pool, fmt.Sprintf("run_%d", b.sequence.Add(1)), text, answers{})
}

// bareSandbox starts workers whose snapshot contains the bare runtime.
type bareSandbox struct {
	self, dir string
	image     *os.File
	jail      *jail.Launcher
}

func (s *bareSandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	settings, err := json.Marshal(worker.Settings{Dir: s.dir, Reserve: 1 << 30})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.self, worker.Command, string(settings))
	cmd.Env = []string{"GOMAXPROCS=2"}
	if s.image != nil {
		cmd.ExtraFiles = []*os.File{s.image}
	}
	runner, err := sandbox.StartProcess(cmd, s.jail.Start)
	if err != nil {
		return nil, err
	}
	select {
	case f, ok := <-runner.Frames():
		if ok && f.T == frame.Ready {
			return runner, nil
		}
		err = errors.Join(errors.New("start the bare engine"), runner.Err())
	case <-ctx.Done():
		err = ctx.Err()
	}
	runner.Kill()
	return nil, err
}

func (s *bareSandbox) Info() sandbox.Info { return sandbox.Info{Tier: "bare", Engine: quickjs.SHA256} }

func (s *bareSandbox) Close() error {
	s.jail.Close()
	if s.image == nil {
		return nil
	}
	return s.image.Close()
}
