// Package worker is the guest process of the wasm tier: it executes programs in QuickJS, one after another, each in a
// new WebAssembly instance. It contains only the engine and the frame protocol, so that it is small, starts quickly and is
// easy to confine.
package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tetratelabs/wazero/experimental"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

const (
	// flushSize and flushAfter are the maximum size and the maximum age of output that the worker keeps while its program is busy.
	flushSize  = 64 << 10
	flushAfter = 50 * time.Millisecond
	// Go's garbage collection stops all goroutines, which it cannot do while the engine is in a native loop. So ordinary runs should have no
	// collection. The worker collects between runs: after every collectEvery runs, which take about half a megabyte each. In addition, Go collects
	// when its heap reaches heapTarget.
	heapTarget   = 96 << 20
	collectEvery = 16
	// largeHeap is the size in bytes of the Go heap, garbage included, above which the worker collects after a run. A deep recursion leaves a
	// large stack in the Go heap.
	largeHeap = 48 << 20
	// maxOwnMemory is the maximum number of bytes that the process may add to its initial memory, without the guest's memory. The process needs
	// them for three things: frames under way; the heap until it is collected; and the stack of a deep recursion, which takes 84 MB, and twice as
	// much while it grows.
	maxOwnMemory = 320 << 20
)

// Settings are the host's settings for a worker, passed as JSON in its first argument.
type Settings struct {
	Dir     string `json:"dir"`     // directory that Build filled
	Reserve int64  `json:"reserve"` // bytes of address space for guest memory, and the highest memory limit of a run
	Bare    bool   `json:"bare"`    // makes the worker run outside of the jail
}

// Command is the internal command whose arguments are those of Main.
const Command = "__worker"

// Main runs a worker until its standard input ends, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == jail.LauncherCommand {
		return jail.LauncherMain()
	}
	if len(args) > 1 && args[0] == jail.ExecCommand {
		return jail.ExecMain(args[1:], stderr)
	}
	var s Settings
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil {
		fmt.Fprintln(stderr, "this command is internal: the sandbox starts it")
		return 2
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(heapTarget)
	volunteer()
	fmt.Fprintln(stderr, work(context.Background(), s, stdin, stdout))
	return 1
}

// worker executes programs one after another, each in a new instance.
type worker struct {
	engine *engine
	header header
	limit  *limiter
	memory func() (experimental.LinearMemory, error) // returns a memory that holds the image
	jail   func() jail.Missing

	in     input    // frames from the host
	queued [][]byte // answers that came while the guest waited for a synchronous answer
	out    *output
	runs   int
}

func work(ctx context.Context, s Settings, stdin io.Reader, stdout io.Writer) error {
	e, err := openEngine(ctx, s.Dir)
	if err != nil {
		return err
	}
	w := &worker{engine: e, limit: &limiter{}, out: &output{w: stdout}, jail: jail.Enter}
	if s.Bare {
		w.jail = jail.None
	}
	w.limit.limit.Store(s.Reserve)
	if w.header, w.memory, err = openSnapshot(s, w.limit); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	if w.in, err = newInput(stdin, &e.stop); err != nil {
		return err
	}
	e.send = func(text []byte) {
		w.out.frame(text)
		if len(w.out.buf) == 0 { // the output was flushed; a program with much output rarely reaches the interrupt hook, which polls too
			w.in.poll()
		}
	}
	e.sendSync = w.sync
	e.poll = func() {
		w.in.poll()
		w.out.poll()
	}
	for {
		if err := w.serve(ctx); err != nil {
			return err
		}
	}
}

// serve prepares an instance, waits for a program and executes it.
func (w *worker) serve(ctx context.Context) error {
	w.engine.stop.Store(false)
	w.engine.failed = nil
	w.limit.refused.Store(false)
	v, err := w.instance(ctx)
	if err != nil {
		return err
	}
	defer v.close(ctx)
	ready := frame.Frame{T: frame.Ready, Engine: quickjs.SHA256}
	if w.runs == 0 {
		limitMemory(maxOwnMemory)
		ready.Missing = w.jail()
	}
	w.out.write(ready)
	w.out.flush()
	start, run, err := w.awaitStart()
	if err != nil {
		return err
	}
	w.out.run = run
	w.queued = nil
	err = w.execute(ctx, v, start)
	stack := ""
	if errors.Is(err, errInterrupted) {
		stack = w.interruptedAt(ctx, v)
	}
	w.out.done(err, stack, w.limit.refused.Load())
	w.limit.limit.Store(1 << 62)
	w.awaitReset()
	if w.runs++; w.runs%collectEvery == 0 || heapSize() > largeHeap {
		clear(v.funcs) // frees the stacks of the functions
		runtime.GC()
	}
	return nil
}

// heapSize returns the size of the Go heap in bytes, garbage included.
func heapSize() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// instance restores the snapshot into a fresh instance.
func (w *worker) instance(ctx context.Context) (*vm, error) {
	memory, err := w.memory()
	if err != nil {
		return nil, err
	}
	v, err := w.engine.instantiate(experimental.WithMemoryAllocator(ctx, allocator(func() experimental.LinearMemory { return memory })))
	if err != nil {
		return nil, err
	}
	if pages := (w.header.Size - int64(v.memory.Size())) / pageSize; pages > 0 {
		if _, ok := v.memory.Grow(uint32(pages)); !ok {
			return nil, errors.New("the snapshot is larger than the guest's memory")
		}
	}
	if err := v.setStack(w.header.Stack); err != nil {
		return nil, err
	}
	// The functions of the outline itself trap, so this call proves that the machine code was loaded in their place.
	undefined, err := v.invoke(ctx, "qjs_get_undefined")
	if err != nil {
		return nil, fmt.Errorf("%w: the machine code in the cache directory is not for this processor: remove the directory", err)
	}
	v.undefined = handle(undefined)
	yes, err := v.invoke(ctx, "qjs_get_true") // made in advance, because later the guest's memory may be full
	v.yes = handle(yes)
	return v, err
}

// awaitStart waits for a start frame. It skips frames that belong to an ended run.
func (w *worker) awaitStart() (line []byte, run string, err error) {
	for {
		line = w.in.take()
		if !bytes.HasPrefix(line, []byte(`{"t":"start"`)) {
			continue
		}
		w.engine.stop.Store(false)
		var f struct {
			Run    string
			Limits frame.Limits
		}
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, "", fmt.Errorf("read start frame: %w", err)
		}
		if f.Limits.Memory > 0 {
			w.limit.limit.Store(f.Limits.Memory)
		}
		return line, f.Run, nil
	}
}

func (w *worker) awaitReset() {
	for !bytes.HasPrefix(w.in.take(), []byte(`{"t":"reset"`)) {
	}
}

// execute runs a program to its end. It delivers one answer at a time, and runs all microtasks before the next answer.
func (w *worker) execute(ctx context.Context, v *vm, start []byte) error {
	if err := w.enter(ctx, v, w.header.Start, start); err != nil {
		return err
	}
	for {
		ended, err := w.settle(ctx, v)
		if err != nil || ended {
			return err
		}
		w.out.flush()
		var line []byte
		if len(w.queued) > 0 {
			line, w.queued = w.queued[0], w.queued[1:]
		} else {
			line = w.in.take()
		}
		switch {
		case isCancel(line):
			return errInterrupted
		case bytes.HasPrefix(line, []byte(`{"t":"answer"`)):
			if err := w.enter(ctx, v, w.header.Deliver, line); err != nil {
				return err
			}
		}
	}
}

// enter passes a frame to the guest runtime and runs all microtasks.
func (w *worker) enter(ctx context.Context, v *vm, fn handle, line []byte) error {
	text, err := v.newString(ctx, bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return err
	}
	result, err := v.call(ctx, fn, text)
	if err != nil {
		return err
	}
	for _, h := range []handle{result, text} {
		if err := v.free(ctx, h); err != nil {
			return err
		}
	}
	return v.drain(ctx)
}

// maxStack is the maximum size in bytes of a reported stack.
const maxStack = 16 << 10

// interruptedAt returns the JavaScript stack at which the interrupt hook stopped the program, "" if it is not known.
func (w *worker) interruptedAt(ctx context.Context, v *vm) string {
	w.engine.stop.Store(false)
	thrown, err := v.invoke(ctx, "qjs_get_exception")
	if err != nil {
		return ""
	}
	result, err := v.call(ctx, w.header.StackOf, handle(thrown))
	if err != nil {
		return ""
	}
	text, err := v.stringOf(ctx, result)
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), maxStack)])
}

// settle asks the guest runtime whether the program has ended. It tells the runtime whether memory was refused, and passes it the
// oldest rejection without a handler.
func (w *worker) settle(ctx context.Context, v *vm) (ended bool, err error) {
	args := []handle{v.undefined}
	if w.limit.refused.Load() {
		args[0] = v.yes
	}
	if len(v.pending) > 0 {
		args = append(args, v.pending[0].reason)
	}
	result, err := v.call(ctx, w.header.Settle, args...)
	if err != nil {
		return false, err
	}
	is, err := v.invoke(ctx, "qjs_get_bool", uint32(result))
	return is != 0, err
}

// sync sends a synchronous call and returns the answer to it. Answers to other calls that arrive meanwhile are queued in their order.
func (w *worker) sync(text []byte) ([]byte, error) {
	var call struct{ ID int }
	if err := json.Unmarshal(text, &call); err != nil {
		return nil, err
	}
	w.out.frame(text)
	w.out.flush()
	want := fmt.Appendf(nil, `"id":%d,`, call.ID)
	for {
		line := w.in.take()
		if isCancel(line) {
			return nil, errors.New("cancelled")
		}
		if !bytes.HasPrefix(line, []byte(`{"t":"answer"`)) {
			continue
		}
		if head := line[:min(len(line), 200)]; bytes.Contains(head, want) && bytes.Contains(head, []byte(`"sync":true`)) {
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
		w.queued = append(w.queued, line)
	}
}

// output writes frames to the host in batches.
type output struct {
	w    io.Writer
	buf  []byte
	last time.Time
	run  string
	end  []byte // done frame of the guest runtime, held back until the run is over
}

func (o *output) frame(text []byte) {
	if bytes.HasPrefix(text, []byte(`{"t":"done"`)) {
		o.end = text
		return
	}
	o.line(text)
}

// line appends a frame to the buffer. It writes a long frame at once, without copying it.
func (o *output) line(text []byte) {
	if len(text) >= flushSize {
		o.flush()
		o.send(text)
		text = nil
	}
	o.buf = append(append(o.buf, text...), '\n')
	if len(o.buf) >= flushSize {
		o.flush()
	}
}

// send writes to the host.
func (o *output) send(text []byte) {
	if _, err := o.w.Write(text); err != nil {
		os.Exit(0) // the host is gone
	}
}

func (o *output) write(f frame.Frame) {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // frames of the worker itself can always be encoded
	}
	o.line(text)
}

func (o *output) flush() {
	if len(o.buf) == 0 {
		return
	}
	o.send(o.buf)
	o.buf = o.buf[:0]
	o.last = time.Now()
}

// poll flushes output of a busy program that is older than flushAfter.
func (o *output) poll() {
	if len(o.buf) > 0 && time.Since(o.last) > flushAfter {
		o.flush()
	}
}

// done sends the done frame of a run: the frame of the guest runtime, or a frame with the reason why the engine stopped.
func (o *output) done(err error, stack string, refused bool) {
	switch {
	case o.end == nil || errors.Is(err, errMemory) || errors.Is(err, errFrameSize):
		o.write(frame.Frame{T: frame.Done, Run: o.run, Error: ending(err, stack), Refused: refused})
	case refused:
		o.line(append([]byte(`{"refused":true,`), o.end[1:]...))
	default:
		o.line(o.end)
	}
	o.end = nil
	o.flush()
}

// ending returns the error that stopped the engine, with its stack. For an interruption only the host knows the actual reason.
func ending(err error, stack string) *frame.Error {
	switch {
	case errors.Is(err, errMemory):
		return &frame.Error{Kind: "memory", Message: "out of memory"}
	case errors.Is(err, errFrameSize):
		return &frame.Error{Kind: "output_limit", Message: err.Error()}
	case errors.Is(err, errStack):
		return &frame.Error{Kind: "runtime", Name: "RangeError", Message: "Maximum call stack size exceeded"}
	case errors.Is(err, errInterrupted):
		return &frame.Error{Kind: "cancelled", Message: "interrupted", Stack: stack}
	case err == nil:
		return &frame.Error{Kind: "crash", Message: "the program ended without a result"}
	default:
		return &frame.Error{Kind: "crash", Message: err.Error()}
	}
}
