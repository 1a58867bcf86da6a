package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"mcp-code-exec-harness/internal/frame"
)

// handle is a QuickJS value: the address of a boxed JSValue in linear memory, so it survives a snapshot.
type handle uint32

// errInterrupted is the error of a program that the interrupt hook stopped.
var errInterrupted = errors.New("interrupted")

// engine is the compiled module with its host functions. Only one goroutine uses it, except that any goroutine may set stop.
type engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	vm       *vm // instance in use, for the host functions

	stop   atomic.Bool // stops the program; the interrupt hook polls it
	failed error       // reason why a host function stopped the program; nil if the harness stopped it

	// Implementations of the guest's host functions; set before the guest runs. sendSync returns the answer frame.
	send     func(text []byte)
	sendSync func(text []byte) ([]byte, error)
	// poll is called by the interrupt hook every few thousand operations.
	poll func()
}

// fail stops the program for a reason that the guest cannot catch.
func (e *engine) fail(err error) {
	e.failed = err
	e.stop.Store(true)
}

// stopped returns the reason why the program was stopped, nil while it may continue.
func (e *engine) stopped() error {
	switch {
	case !e.stop.Load():
		return nil
	case e.failed != nil:
		return e.failed
	}
	return errInterrupted
}

// newEngine compiles the module, or loads its machine code from the compilation cache in dir.
func newEngine(ctx context.Context, module []byte, dir string) (*engine, error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open compilation cache: %w", err)
	}
	// The interrupt hook of the engine stops programs; wazero's own check would make them four to six times slower.
	config := wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache).WithCloseOnContextDone(false)
	e := &engine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if e.compiled, err = e.runtime.CompileModule(ctx, module); err != nil {
		return nil, fmt.Errorf("compile engine: %w", err)
	}
	if err := e.exportHost(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// vm is one WebAssembly instance with one QuickJS context in it.
type vm struct {
	engine  *engine
	module  api.Module
	memory  api.Memory
	funcs   map[string]api.Function
	pending []rejection // unhandled rejections, oldest first

	undefined handle // JavaScript's undefined, the value of this in every call
	yes       handle // JavaScript's true
	scratch   uint32 // address of scratchSize bytes of guest memory for arguments and lengths
}

// scratchSize is the size in bytes of the scratch memory, which holds the arguments of a call.
const scratchSize = 64

// rejection is a promise that was rejected without a handler.
type rejection struct {
	key    uint32 // identity of the promise
	reason handle
}

// instantiate makes an instance over the given memory.
func (e *engine) instantiate(ctx context.Context) (*vm, error) {
	module, err := e.runtime.InstantiateModule(ctx, e.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("instantiate engine: %w", err)
	}
	v := &vm{engine: e, module: module, memory: module.Memory(), funcs: map[string]api.Function{}}
	e.vm = v
	return v, nil
}

func (v *vm) close(ctx context.Context) {
	v.module.Close(ctx)
	if v.engine.vm == v {
		v.engine.vm = nil
	}
}

// invoke calls an exported function of the engine with 32-bit arguments. An error is a trap, after which the instance cannot be used.
func (v *vm) invoke(ctx context.Context, name string, args ...uint32) (uint32, error) {
	fn := v.funcs[name]
	if fn == nil {
		if fn = v.module.ExportedFunction(name); fn == nil {
			return 0, fmt.Errorf("the engine has no function %s", name)
		}
		v.funcs[name] = fn
	}
	var stack [6]uint64
	for i, a := range args {
		stack[i] = uint64(a)
	}
	if err := fn.CallWithStack(ctx, stack[:]); err != nil {
		return 0, trapError(name, err)
	}
	return uint32(stack[0]), nil
}

// trapError returns an error with the first line of a trap; the rest is a WebAssembly stack without symbols.
func trapError(name string, err error) error {
	message, _, _ := strings.Cut(err.Error(), "\n")
	if strings.HasSuffix(message, "stack overflow") {
		return errStack
	}
	return fmt.Errorf("engine trapped in %s: %s", name, message)
}

// newString makes a JavaScript string from UTF-8.
func (v *vm) newString(ctx context.Context, text []byte) (handle, error) {
	return v.lend(ctx, text, func(ptr uint32) (uint32, error) {
		return v.invoke(ctx, "qjs_new_string", ptr, uint32(len(text)))
	})
}

// lend copies data into linear memory, calls use with the address of the copy, and frees the copy afterwards.
func (v *vm) lend(ctx context.Context, data []byte, use func(ptr uint32) (uint32, error)) (handle, error) {
	ptr, err := v.alloc(ctx, data)
	if err != nil {
		return 0, err
	}
	result, err := use(ptr)
	if err != nil {
		return 0, err // after a trap the instance cannot be used, so nothing is freed
	}
	_, err = v.invoke(ctx, "wasm_free", ptr)
	return handle(result), err
}

// alloc copies bytes into linear memory, with a zero byte after them.
func (v *vm) alloc(ctx context.Context, data []byte) (uint32, error) {
	ptr, err := v.invoke(ctx, "wasm_malloc", uint32(len(data)+1))
	if err != nil {
		return 0, err
	}
	if ptr == 0 {
		return 0, errMemory
	}
	v.memory.Write(ptr, data)
	v.memory.WriteByte(ptr+uint32(len(data)), 0)
	return ptr, nil
}

var (
	// errStack reports a recursion that exceeded the stack of the machine code before it exceeded the stack of QuickJS.
	errStack = errors.New("stack overflow")
	// errMemory reports that the guest's memory is full.
	errMemory = errors.New("out of memory")
	// errFrameSize reports a frame of the guest that is longer than the host accepts.
	errFrameSize = fmt.Errorf("the program sent more than %d MiB at once", frame.MaxSize>>20)
)

// stringOf returns a copy of a JavaScript string as UTF-8. It refuses other values, because their conversion would run guest code.
func (v *vm) stringOf(ctx context.Context, h handle) ([]byte, error) {
	if is, err := v.invoke(ctx, "qjs_is_string", uint32(h)); err != nil || is == 0 {
		return nil, errors.Join(errors.New("not a string"), err)
	}
	length, err := v.reserve(ctx)
	if err != nil {
		return nil, err
	}
	ptr, err := v.invoke(ctx, "qjs_get_string_len", uint32(h), length)
	if err != nil {
		return nil, err
	}
	if ptr == 0 {
		return nil, errMemory
	}
	n, _ := v.memory.ReadUint32Le(length)
	if n > frame.MaxSize {
		return nil, errFrameSize
	}
	view, ok := v.memory.Read(ptr, n)
	if !ok {
		return nil, errors.New("the engine returned a string outside its memory")
	}
	text := append([]byte(nil), view...)
	_, err = v.invoke(ctx, "qjs_free_cstring", ptr)
	return text, err
}

// reserve returns the address of the scratch memory. Its content is valid only until the guest runs again.
func (v *vm) reserve(ctx context.Context) (uint32, error) {
	if v.scratch != 0 {
		return v.scratch, nil
	}
	var err error
	v.scratch, err = v.alloc(ctx, make([]byte, scratchSize))
	return v.scratch, err
}

// call calls a function value with undefined as this and at most scratchSize/4 arguments.
func (v *vm) call(ctx context.Context, fn handle, args ...handle) (handle, error) {
	argv, err := v.reserve(ctx)
	if err != nil {
		return 0, err
	}
	for i, a := range args {
		v.memory.WriteUint32Le(argv+4*uint32(i), uint32(a))
	}
	if v.undefined == 0 { // only while the snapshot is built
		undefined, err := v.invoke(ctx, "qjs_get_undefined")
		if err != nil {
			return 0, err
		}
		v.undefined = handle(undefined)
	}
	result, err := v.invoke(ctx, "qjs_call", uint32(fn), uint32(v.undefined), uint32(len(args)), argv)
	if err != nil {
		return 0, err
	}
	return handle(result), v.exception(ctx, handle(result))
}

// eval evaluates a script and returns its completion value.
func (v *vm) eval(ctx context.Context, code []byte, file string) (handle, error) {
	result, err := v.lend(ctx, code, func(codePtr uint32) (uint32, error) {
		value, err := v.lend(ctx, []byte(file), func(filePtr uint32) (uint32, error) {
			return v.invoke(ctx, "qjs_eval", codePtr, uint32(len(code)), filePtr, 0)
		})
		return uint32(value), err
	})
	if err != nil {
		return 0, err
	}
	return result, v.exception(ctx, result)
}

// jsError is an exception that reached the host.
type jsError struct{ value handle }

func (e *jsError) Error() string { return "exception in the guest runtime" }

// exception turns the exception marker into an error.
func (v *vm) exception(ctx context.Context, result handle) error {
	if err := v.engine.stopped(); err != nil {
		return err
	}
	is, err := v.invoke(ctx, "qjs_is_exception", uint32(result))
	if err != nil || is == 0 {
		return err
	}
	value, err := v.invoke(ctx, "qjs_get_exception")
	if err != nil {
		return err
	}
	return &jsError{handle(value)}
}

// drain runs microtasks until none is left.
func (v *vm) drain(ctx context.Context) error {
	for {
		if err := v.engine.stopped(); err != nil {
			return err
		}
		pending, err := v.invoke(ctx, "qjs_is_job_pending")
		if err != nil || pending == 0 {
			return err
		}
		if _, err := v.invoke(ctx, "qjs_execute_pending_job"); err != nil {
			return err
		}
	}
}

func (v *vm) free(ctx context.Context, h handle) error {
	_, err := v.invoke(ctx, "qjs_free_value", uint32(h))
	return err
}

// property returns a property by its name. It must only be used for the runtime's own objects.
func (v *vm) property(ctx context.Context, object handle, name string) (handle, error) {
	return v.lend(ctx, []byte(name), func(ptr uint32) (uint32, error) {
		return v.invoke(ctx, "qjs_get_prop_string", uint32(object), ptr)
	})
}

func (v *vm) setProperty(ctx context.Context, object handle, name string, value handle) error {
	_, err := v.lend(ctx, []byte(name), func(ptr uint32) (uint32, error) {
		return v.invoke(ctx, "qjs_set_prop_string", uint32(object), ptr, uint32(value))
	})
	return err
}
