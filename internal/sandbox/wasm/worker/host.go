package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"mcp-code-exec-harness/internal/jsontext"
)

// wasiBadFile is WASI's EBADF: the guest has no files.
const wasiBadFile = 8

// hostFunc is the body of a function that the engine imports; params and results share the stack.
type hostFunc func(ctx context.Context, v *vm, stack []uint64)

// imports returns the engine's imports. Time, zone and entropy are constants, because a run must not depend on the machine;
// the guest runtime has its own clock and randomness.
func (e *engine) imports() map[string]hostFunc {
	constant := func(result uint64) hostFunc {
		return func(_ context.Context, _ *vm, stack []uint64) { stack[0] = result }
	}
	return map[string]hostFunc{
		"env.host_call":                e.hostCall,
		"env.host_promise_rejection":   e.hostRejection,
		"env.host_module_normalize":    constant(0),
		"env.host_module_load":         constant(0),
		"env.host_get_timezone_offset": constant(0),
		"env.host_interrupt": func(_ context.Context, _ *vm, stack []uint64) {
			stack[0] = 0
			if e.poll != nil {
				e.poll()
			}
			if e.stop.Load() {
				stack[0] = 1
			}
		},
		"wasi_snapshot_preview1.fd_close":      constant(wasiBadFile),
		"wasi_snapshot_preview1.fd_fdstat_get": constant(wasiBadFile),
		"wasi_snapshot_preview1.fd_seek":       constant(wasiBadFile),
		"wasi_snapshot_preview1.fd_write":      constant(wasiBadFile),
		"wasi_snapshot_preview1.clock_time_get": func(_ context.Context, v *vm, stack []uint64) {
			v.memory.WriteUint64Le(uint32(stack[2]), 0)
			stack[0] = 0
		},
		"wasi_snapshot_preview1.random_get": func(_ context.Context, v *vm, stack []uint64) {
			if view, ok := v.memory.Read(uint32(stack[0]), uint32(stack[1])); ok {
				clear(view)
			}
			stack[0] = 0
		},
	}
}

// exportHost defines the host modules with the signatures that the engine declares for its imports.
func (e *engine) exportHost(ctx context.Context) error {
	known := e.imports()
	modules := map[string][]api.FunctionDefinition{}
	for _, def := range e.compiled.ImportedFunctions() {
		module, _, _ := def.Import()
		modules[module] = append(modules[module], def)
	}
	for module, defs := range modules {
		builder := e.runtime.NewHostModuleBuilder(module)
		for _, def := range defs {
			_, name, _ := def.Import()
			body := known[module+"."+name]
			if body == nil {
				return fmt.Errorf("the engine imports %s.%s, which the host does not supply", module, name)
			}
			fn := api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) { body(ctx, e.vm, stack) })
			builder = builder.NewFunctionBuilder().WithGoModuleFunction(fn, def.ParamTypes(), def.ResultTypes()).Export(name)
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("define host module %s: %w", module, err)
		}
	}
	return nil
}

// hostCall serves send, sendSync, compile and inexact. The result is a new value, or 0 after throwing into the guest.
func (e *engine) hostCall(ctx context.Context, v *vm, stack []uint64) {
	name, _ := v.memory.Read(uint32(stack[0]), uint32(stack[1]))
	argc, argv := uint32(stack[3]), uint32(stack[4])
	arg := func(i uint32) ([]byte, error) {
		if i >= argc {
			return nil, errors.New("missing argument")
		}
		ptr, _ := v.memory.ReadUint32Le(argv + 4*i)
		return v.stringOf(ctx, handle(ptr))
	}
	result, err := e.serve(ctx, v, string(name), arg)
	if err == nil {
		stack[0] = uint64(result)
		return
	}
	stack[0] = 0
	if errors.Is(err, errMemory) || errors.Is(err, errFrameSize) {
		e.fail(err)
		return
	}
	if thrown, ok := errors.AsType[*jsError](err); ok {
		v.invoke(ctx, "qjs_throw", uint32(thrown.value))
		return
	}
	message, err := v.newString(ctx, []byte(err.Error()))
	if err != nil {
		e.fail(err)
		return
	}
	v.invoke(ctx, "qjs_throw", uint32(message))
}

func (e *engine) serve(ctx context.Context, v *vm, name string, arg func(uint32) ([]byte, error)) (handle, error) {
	text, err := arg(0)
	if err != nil {
		return 0, err
	}
	switch name {
	case "send":
		if err := e.stopped(); err != nil {
			return 0, err
		}
		e.send(text)
	case "sendSync":
		answer, err := e.sendSync(text)
		if err != nil {
			return 0, err
		}
		return v.newString(ctx, answer)
	case "compile":
		file, err := arg(1)
		if err != nil {
			return 0, err
		}
		return v.eval(ctx, text, string(file))
	case "inexact":
		if kept, rounded := jsontext.Numbers(text); kept && !rounded {
			break
		} else if kept {
			return v.newString(ctx, []byte("rounded"))
		}
		return v.newString(ctx, []byte("beyond"))
	default:
		return 0, fmt.Errorf("no host function %s", name)
	}
	undefined, err := v.invoke(ctx, "qjs_get_undefined")
	return handle(undefined), err
}

// hostRejection records promises that were rejected without a handler, and removes promises that get a handler later.
func (e *engine) hostRejection(ctx context.Context, v *vm, stack []uint64) {
	// wazero leaves the upper half of a 32-bit slot undefined.
	promise, reason, handled := handle(stack[0]), handle(stack[1]), uint32(stack[2]) != 0
	key, err := v.invoke(ctx, "qjs_get_value_ptr", uint32(promise))
	if err != nil {
		return
	}
	if !handled {
		// The promise is not freed, so that no later promise can have its address.
		v.pending = append(v.pending, rejection{key, reason})
		return
	}
	v.pending = slices.DeleteFunc(v.pending, func(r rejection) bool { return r.key == key })
	v.free(ctx, promise)
	v.free(ctx, reason)
}
