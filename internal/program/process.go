package program

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
)

// CompilerCommand is the internal command whose arguments are those of CompilerMain.
const CompilerCommand = "__compiler"

// Limits of a compiler process, higher than any code written by hand needs. They bound computing time, which does not depend
// on how busy the machine is.
const (
	maxMemory        = 1 << 30   // bytes
	maxCompilerStack = 256 << 20 // bytes
	maxTextCPU       = 3 * time.Second
	maxPackageCPU    = 20 * time.Second
)

var (
	errDied  = errors.New("the compiler process died")
	errSlow  = errors.New("the compiler process ran out of computing time")
	errLarge = errors.New("the compiler process ran out of memory")
	errGone  = errors.New("the compiler process had ended")
	errHeld  = errors.New("the compiler took too long")
)

// Exit codes of a compiler process.
const (
	exitStack = 2 // exit code of Go's runtime after a stack overflow
	exitSlow  = 3
	exitLarge = 4
)

// compiler is a process that runs tasks with esbuild, one after another.
type compiler struct {
	child *process.Child
	send  *gob.Encoder
	take  *gob.Decoder
}

func startCompiler(executable string, args []string, start func(*exec.Cmd) error) (*compiler, error) {
	cmd := exec.Command(executable, args...)
	cmd.Env = []string{} // esbuild reads some variables
	child, err := process.Open(cmd, start)
	if err != nil {
		return nil, fmt.Errorf("start a compiler: %w", err)
	}
	process.Lower(child.Process)
	return &compiler{child: child, send: gob.NewEncoder(child.Stdin), take: gob.NewDecoder(child.Stdout)}, nil
}

// call sends a task to the process and waits for its product. If ctx ends, it kills the process. After an error the process has ended. The error is that of
// ctx, errGone if the process took no task, errSlow, errLarge, or else errDied.
func (c *compiler) call(ctx context.Context, t task) (product, error) {
	stop := context.AfterFunc(ctx, c.kill)
	var p product
	err := c.send.Encode(t)
	if err != nil {
		err = fmt.Errorf("%w: %w", errGone, err)
	} else if err = c.take.Decode(&p); err != nil {
		err = fmt.Errorf("%w: %w", errDied, err)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err == nil {
		return p, nil
	}
	if code := c.end(); errors.Is(err, errDied) {
		switch code {
		case exitSlow:
			err = errSlow
		case exitLarge, exitStack:
			err = errLarge
		}
	}
	return product{}, err
}

func (c *compiler) kill() { c.child.Process.Kill() }

// end kills the process if it still runs, waits for its end, and returns its exit code.
func (c *compiler) end() int {
	c.kill()
	return c.child.Wait().ExitCode()
}

// CompilerMain runs a compiler process until its standard input ends, and returns the exit code. args are those after
// CompilerCommand.
func CompilerMain(args []string, in io.Reader, out io.Writer) int {
	if len(args) == 1 && args[0] == jail.LauncherCommand {
		return jail.LauncherMain()
	}
	debug.SetMaxStack(maxCompilerStack) // the runtime ends the process on overflow
	walls := sync.OnceFunc(func() { jail.Enter() })
	send, take := gob.NewEncoder(out), gob.NewDecoder(in)
	for {
		var t task
		if err := take.Decode(&t); err != nil {
			return 0
		}
		if t.Package == "" { // the task of a package runs without walls, because it reads files; the operator has provided the package
			walls()
		}
		done := make(chan struct{})
		begun := cpuTime()
		cpu, _ := t.limits()
		go watch(begun+cpu, done)
		p := t.do()
		close(done)
		p.CPU = cpuTime() - begun
		if err := send.Encode(p); err != nil {
			return 0
		}
	}
}

// limits returns the maximum computing time and the maximum elapsed time of a task.
func (t task) limits() (cpu, wall time.Duration) {
	switch {
	case t.Package != "":
		return maxPackageCPU, maxPackageTime
	case t.ReadUses:
		return maxUsesCPU, maxUsesTime
	}
	return maxTextCPU, maxTextTime
}

// watch ends the process when it uses too much memory or its computing time exceeds limit.
func watch(limit time.Duration, done <-chan struct{}) {
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		metrics.Read(held)
		switch {
		case held[0].Value.Uint64()-held[1].Value.Uint64() > maxMemory:
			os.Exit(exitLarge)
		case cpuTime() > limit:
			os.Exit(exitSlow)
		}
	}
}
