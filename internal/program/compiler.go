package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/slots"
)

// Compiler runs esbuild. esbuild cannot be stopped, and some short texts cost it hours or all memory. So it runs in separate
// processes. They are killed when their compilation is cancelled, and exit when they use too much time or memory. A Compiler
// is safe for concurrent use.
type Compiler struct {
	slots *slots.Slots              // slots for running compilations, including abandoned ones
	do    func(task) product        // runs esbuild in this process if start is nil
	start func() (*compiler, error) // starts a process
	jail  *jail.Launcher

	mu     sync.Mutex
	idle   []*compiler
	closed bool
}

// maxIdle is the maximum number of idle processes.
const maxIdle = 2

// Time limits of one run of esbuild, however busy the machine is; see also maxTextCPU. A megabyte of ordinary code
// takes some tenths of a second.
const (
	maxTextTime    = time.Minute
	maxPackageTime = 3 * time.Minute
)

// here compiles for Options without a Compiler, in this process. A cancelled compilation continues in the background and holds its slot until
// it ends.
var here = newCompiler()

func newCompiler() *Compiler {
	most := max(2, runtime.GOMAXPROCS(0)) // limit of one owner; one slot remains for other owners
	return &Compiler{slots: slots.New(slots.Limits{All: most + 1, Each: most}, "texts", "compiled"), do: task.do}
}

// NewCompiler returns a compiler whose processes execute program with CompilerCommand. They start on demand. The caller must call Close.
func NewCompiler(program process.Self) *Compiler {
	c := newCompiler()
	command := func() (string, []string) {
		path, args := program()
		return path, append(args, CompilerCommand)
	}
	c.jail = jail.NewLauncher(command)
	c.start = func() (*compiler, error) {
		path, args := command()
		return startCompiler(path, args, c.jail.Start)
	}
	return c
}

// Close ends the idle processes. Running compilations continue, and their processes end afterwards.
func (c *Compiler) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, p := range c.idle {
		p.end()
	}
	c.idle = nil
	if c.jail != nil {
		c.jail.Close()
	}
}

// outcome is the result of a task.
type outcome struct {
	product product
	err     error
}

// run runs a task for the file called name and charges its owner. The error wraps the error of ctx or of Charge, is an *Error without a
// position if the task costs too much, or says why no process starts.
func (o Options) run(ctx context.Context, name string, t task) (product, error) {
	c := cmp.Or(o.Compiler, here)
	release, err := c.slots.Acquire(ctx, o.Owner, 1)
	if err != nil {
		return product{}, fmt.Errorf("compile %s: %w", name, err)
	}
	cpu, wall := t.limits()
	limited, stop := context.WithTimeout(ctx, wall)
	defer stop()
	done := make(chan outcome, 1)
	begun := time.Now()
	go func() {
		p, err := c.work(limited, t)
		release()
		done <- outcome{p, err}
	}()
	var made outcome
	select {
	case made = <-done:
	case <-limited.Done():
		made.err = limited.Err()
	}
	if o.Charge != nil {
		used := made.product.CPU
		if made.err != nil || used == 0 { // the time was not measured
			used = min(cpu, time.Since(begun))
		}
		if err := o.Charge(used); err != nil {
			return product{}, fmt.Errorf("compile %s: %w", name, err)
		}
	}
	switch err := made.err; {
	case err == nil && made.product.TooLarge:
		return product{}, tooCostly(name, fmt.Sprintf("becomes larger than %d MiB", maxProduct>>20), nil)
	case err == nil:
		return made.product, nil
	case ctx.Err() != nil:
		return product{}, fmt.Errorf("compile %s: %w", name, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded): // the deadline of the compilation, not of ctx
		return product{}, tooCostly(name, fmt.Sprintf("takes too long to compile: more than %s", wall), errHeld)
	case errors.Is(err, errSlow):
		return product{}, tooCostly(name, "takes too long to compile", err)
	case errors.Is(err, errDied), errors.Is(err, errLarge):
		return product{}, tooCostly(name, "takes too much memory to compile", err)
	default:
		return product{}, fmt.Errorf("compile %s: %w", name, err)
	}
}

func tooCostly(name, what string, cause error) *Error {
	return &Error{
		File: name, Message: "the code " + what, cause: cause,
		Hint: "split it into smaller modules, and long expressions and types into statements; put data into files",
	}
}

// lasting reports whether a compilation error follows from the text alone, so that compiling again is useless.
func lasting(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.cause == nil || errors.Is(e.cause, errSlow) || errors.Is(e.cause, errLarge))
}

// work runs a task in a compiler process, or in this process. It returns when the task has ended, or when ctx ended and the process is killed.
func (c *Compiler) work(ctx context.Context, t task) (product, error) {
	if c.start == nil {
		return c.do(t), nil
	}
	if t.Package != "" { // the process of a package has no walls and serves no other task
		p, err := c.start()
		if err != nil {
			return product{}, err
		}
		defer p.end()
		return p.call(ctx, t)
	}
	for {
		p, used, err := c.take()
		if err != nil {
			return product{}, err
		}
		made, err := p.call(ctx, t)
		if err == nil {
			c.give(p)
			return made, nil
		}
		if !used || !errors.Is(err, errGone) {
			return made, err
		}
	}
}

// take returns an idle process or a new one. used reports whether the process was idle and so may have died since.
func (c *Compiler) take() (p *compiler, used bool, err error) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		p, c.idle = c.idle[last], c.idle[:last]
		c.mu.Unlock()
		return p, true, nil
	}
	c.mu.Unlock()
	p, err = c.start()
	return p, false, err
}

// give returns a process to the idle ones, or ends it if there are enough.
func (c *Compiler) give(p *compiler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == maxIdle {
		p.end()
		return
	}
	c.idle = append(c.idle, p)
}
