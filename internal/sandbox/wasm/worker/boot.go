package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/experimental"
)

// guestRuntime is the guest runtime and its libraries, compiled for the engine.
type guestRuntime struct{ prelude, libraries []byte }

// compileRuntime compiles the scripts in a separate instance, so that what the compiler leaves in the heap does not get into the snapshot. The
// code does not include the source text of its functions, which would take more of the snapshot than all their objects.
func compileRuntime(ctx context.Context, e *engine, segments []segment, prelude, libraries []byte) (r guestRuntime, err error) {
	v, _, err := e.initialize(ctx, segments)
	if err != nil {
		return r, err
	}
	defer v.close(ctx)
	// The bundle declares one global; the function around it hides the name from the guest.
	text := append([]byte("(()=>{"), prelude...)
	text = append(text, "\n;return __harness.default})()"...)
	if r.prelude, err = v.compile(ctx, text, "harness:prelude"); err != nil {
		return r, v.explain(ctx, err)
	}
	text = append(bytes.Clone(libraries), "\n;__libraries"...)
	if r.libraries, err = v.compile(ctx, text, "harness:libraries"); err != nil {
		return r, v.explain(ctx, err)
	}
	return r, nil
}

// initialize returns a new instance of the engine with initialized memory, and the lowest address of its stack.
func (e *engine) initialize(ctx context.Context, segments []segment) (v *vm, stack uint32, err error) {
	limit := &limiter{}
	limit.limit.Store(buildMemory)
	v, err = e.instantiate(experimental.WithMemoryAllocator(ctx,
		allocator(func() experimental.LinearMemory { return &heapMemory{limit: limit} })))
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			v.close(ctx)
		}
	}()
	for _, s := range segments {
		if !v.memory.Write(s.offset, s.data) {
			return nil, 0, errors.New("a data segment of the engine lies outside its memory")
		}
	}
	if _, err = v.invoke(ctx, "_initialize"); err != nil {
		return nil, 0, fmt.Errorf("initialize engine: %w", err)
	}
	if stack, err = v.moveStack(ctx); err != nil {
		return nil, 0, err
	}
	for _, step := range []struct {
		name string
		args []uint32
	}{
		{"qjs_init", nil},
		{"qjs_set_max_stack_size", []uint32{guestStack}},
		{"qjs_set_interrupt_handler", []uint32{1}},
		{"qjs_set_promise_rejection_handler", []uint32{1}},
	} {
		if _, err = v.invoke(ctx, step.name, step.args...); err != nil {
			return nil, 0, fmt.Errorf("initialize engine: %w", err)
		}
	}
	return v, stack, nil
}

// moveStack gives the engine a stack of the size that programs need, and returns the lowest address of the stack. It must not run during a call of
// the engine.
func (v *vm) moveStack(ctx context.Context) (lowest uint32, err error) {
	const size = guestStack + stackReserve
	lowest, err = v.invoke(ctx, "wasm_malloc", size)
	if err != nil || lowest == 0 {
		return 0, fmt.Errorf("allocate the engine's stack: %w", cmp.Or(err, errMemory))
	}
	return lowest, v.setStack(uint64(lowest+size) &^ 15) // C requires alignment to 16 bytes
}

// setStack sets the engine's stack pointer.
func (v *vm) setStack(at uint64) error {
	stack, ok := v.module.ExportedGlobal("__stack_pointer").(interface{ Set(uint64) })
	if !ok {
		return errors.New("the engine's stack pointer cannot be set")
	}
	stack.Set(at)
	return nil
}

// runApart evaluates compiled code in a new realm of the same heap, and returns the value.
func (v *vm) runApart(ctx context.Context, code []byte, stack uint32) (value handle, err error) {
	runtime, err := v.invoke(ctx, "qjs_get_runtime_ptr")
	if err != nil {
		return 0, err
	}
	own, err := v.invoke(ctx, "qjs_get_context_ptr")
	if err != nil {
		return 0, err
	}
	apart, err := v.invoke(ctx, "JS_NewContext", runtime)
	if err != nil {
		return 0, err
	}
	if _, err := v.invoke(ctx, "qjs_set_runtime_and_context", runtime, apart); err != nil {
		return 0, err
	}
	if value, err = v.run(ctx, code, stack); err != nil {
		return 0, v.explain(ctx, err)
	}
	_, err = v.invoke(ctx, "qjs_set_runtime_and_context", runtime, own)
	return value, err
}

// boot evaluates the prelude and passes it the host functions and the libraries. stack is the lowest address of the stack.
func (v *vm) boot(ctx context.Context, r guestRuntime, stack uint32, h *header) error {
	boot, err := v.run(ctx, r.prelude, stack)
	if err != nil {
		return err
	}
	raw, err := v.invoke(ctx, "qjs_new_object")
	if err != nil {
		return err
	}
	host := handle(raw)
	for _, name := range []string{"send", "sendSync", "compile", "inexact"} {
		ptr, err := v.alloc(ctx, []byte(name))
		if err != nil {
			return err
		}
		fn, err := v.invoke(ctx, "qjs_new_host_function", ptr, uint32(len(name)), 0)
		if err != nil {
			return err
		}
		if err := v.setProperty(ctx, host, name, handle(fn)); err != nil {
			return err
		}
	}
	value, err := v.runApart(ctx, r.libraries, stack)
	if err != nil {
		return fmt.Errorf("evaluate the libraries: %w", err)
	}
	if err := v.setProperty(ctx, host, "libraries", value); err != nil {
		return err
	}
	entry, err := v.call(ctx, boot, host)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		to   *handle
	}{{"start", &h.Start}, {"deliver", &h.Deliver}, {"settle", &h.Settle}, {"stackOf", &h.StackOf}} {
		fn, err := v.property(ctx, entry, f.name)
		if err != nil {
			return err
		}
		if is, err := v.invoke(ctx, "qjs_is_function", uint32(fn)); err != nil || is == 0 {
			return errors.Join(fmt.Errorf("the guest runtime has no function %s", f.name), err)
		}
		*f.to = fn
	}
	return v.drain(ctx)
}

// explain returns an error with the message and stack of an exception. It may run guest code, so it must only be used for the runtime's own
// errors.
func (v *vm) explain(ctx context.Context, err error) error {
	thrown, ok := errors.AsType[*jsError](err)
	if !ok {
		return err
	}
	text := ""
	for _, name := range []string{"message", "stack"} {
		if h, err := v.property(ctx, thrown.value, name); err == nil {
			if s, err := v.stringOf(ctx, h); err == nil {
				text += string(s) + "\n"
			}
		}
	}
	return fmt.Errorf("exception: %s", text)
}

// stripSource is JS_WRITE_OBJ_STRIP_SOURCE: compiled functions keep their positions but not their source text.
const stripSource = 1 << 4

// compile returns the compiled code of a script.
func (v *vm) compile(ctx context.Context, text []byte, file string) (code []byte, err error) {
	length, err := v.reserve(ctx)
	if err != nil {
		return nil, err
	}
	ptr, err := v.lend(ctx, text, func(textPtr uint32) (uint32, error) {
		code, err := v.lend(ctx, []byte(file), func(filePtr uint32) (uint32, error) {
			return v.invoke(ctx, "qjs_compile", textPtr, uint32(len(text)), filePtr, 0, stripSource, length)
		})
		return uint32(code), err
	})
	if err != nil {
		return nil, err
	}
	if ptr == 0 {
		value, err := v.invoke(ctx, "qjs_get_exception")
		return nil, cmp.Or(err, error(&jsError{handle(value)}))
	}
	size, _ := v.memory.ReadUint32Le(length)
	read, ok := v.memory.Read(uint32(ptr), size)
	if !ok {
		return nil, errors.New("compiled code lies outside the memory")
	}
	return bytes.Clone(read), nil
}

// run evaluates compiled code and returns its completion value. It puts the code at the far end of the stack, which the evaluation does not reach.
// If the code were in the heap, the heap would stay larger by the size of the code.
func (v *vm) run(ctx context.Context, code []byte, stack uint32) (handle, error) {
	if len(code) > guestStack*3/4 || !v.memory.Write(stack, code) {
		return 0, fmt.Errorf("compiled code of %d bytes does not fit into the stack", len(code))
	}
	result, err := v.invoke(ctx, "qjs_eval_bytecode", stack, uint32(len(code)))
	if err != nil {
		return 0, err
	}
	return handle(result), v.exception(ctx, handle(result))
}

// collectAt is the heap size in bytes at which a program's first garbage collection happens. A collection writes to every object, and so makes the
// pages of the snapshot private. Without a collection, reference counts free everything except cycles.
const collectAt = 6 << 20

// settleHeap collects garbage and sets the threshold of the next collection.
func (v *vm) settleHeap(ctx context.Context) error {
	if _, err := v.invoke(ctx, "qjs_run_gc"); err != nil {
		return err
	}
	_, err := v.invoke(ctx, "qjs_set_gc_threshold", collectAt)
	return err
}
