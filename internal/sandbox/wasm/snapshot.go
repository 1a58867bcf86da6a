package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetratelabs/wazero/experimental"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

// Limits of building: the guest runtime needs far less.
const buildMemory = 64 << 20

// guestStack is QuickJS's stack in bytes, the most that its build allows.
const guestStack = 512 << 10

// header says how to continue from an image. It fills the first page of a snapshot; the image follows.
type header struct {
	Magic string `json:"magic"`
	Stack uint64 `json:"stack"` // the stack pointer
	Size  int64  `json:"size"`  // bytes of the image
	// The guest runtime's entry points.
	Start   handle `json:"start"`
	Deliver handle `json:"deliver"`
	Settle  handle `json:"settle"`
	// Hot are the parts of the image that every program writes to, found by running one.
	Hot []extent `json:"hot,omitempty"`
}

// extent is a part of the image, in bytes.
type extent struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

const snapshotMagic = "harness snapshot 2"

// buildSnapshot evaluates the guest runtime in a new instance and returns the memory it leaves, with its header.
// Nothing of the machine enters: the engine sees constant time and entropy, so the same prelude gives the same bytes.
func buildSnapshot(ctx context.Context, e *engine, prelude []byte) ([]byte, error) {
	limit := &limiter{}
	limit.limit.Store(buildMemory)
	v, err := e.instantiate(experimental.WithMemoryAllocator(ctx,
		allocator(func() experimental.LinearMemory { return &heapMemory{limit: limit} })))
	if err != nil {
		return nil, err
	}
	defer v.close(ctx)
	for _, s := range e.segments {
		if !v.memory.Write(s.offset, s.data) {
			return nil, errors.New("a data segment of the engine lies outside its memory")
		}
	}
	for _, step := range []struct {
		name string
		args []uint32
	}{
		{"_initialize", nil},
		{"qjs_init", nil},
		{"qjs_set_max_stack_size", []uint32{guestStack}},
		{"qjs_set_interrupt_handler", []uint32{1}},
		{"qjs_set_promise_rejection_handler", []uint32{1}},
	} {
		if _, err := v.invoke(ctx, step.name, step.args...); err != nil {
			return nil, fmt.Errorf("initialize engine: %w", err)
		}
	}
	h := header{Magic: snapshotMagic}
	if err := v.boot(ctx, prelude, &h); err != nil {
		return nil, fmt.Errorf("evaluate the guest runtime: %w", v.explain(ctx, err))
	}
	if _, err := v.invoke(ctx, "qjs_run_gc"); err != nil {
		return nil, err
	}
	h.Stack = v.module.ExportedGlobal("__stack_pointer").Get()
	image, _ := v.memory.Read(0, v.memory.Size())
	h.Size = int64(len(image))
	image = bytes.Clone(image)
	if h.Hot, err = trial(ctx, e, h, image); err != nil {
		return nil, fmt.Errorf("try the snapshot: %w", err)
	}
	return encodeSnapshot(h, image)
}

// trial restores an image, runs a program that makes a call and returns the parts that were written to. A later
// instance has those copied before its program arrives, when nobody waits for it.
func trial(ctx context.Context, e *engine, h header, image []byte) ([]extent, error) {
	in := newInbox()
	w := &worker{engine: e, header: h, limit: &limiter{}, out: &output{w: io.Discard}, in: in}
	w.limit.limit.Store(buildMemory)
	w.memory = func() (experimental.LinearMemory, error) { return &heapMemory{limit: w.limit, image: image}, nil }
	e.send = func(text []byte) {
		if bytes.HasPrefix(text, []byte(`{"t":"call"`)) {
			in.put([]byte(`{"t":"answer","run":"trial","id":1,"now":1,"value":{"n":1}}`))
		}
		w.out.frame(text)
	}
	v, err := w.instance(ctx)
	if err != nil {
		return nil, err
	}
	defer v.close(ctx)
	const program = `(async () => { const a = await callMCPTool('a__b', {n: 1}); return [a.n, 1 + 1] })`
	code, err := json.Marshal(program)
	if err != nil {
		return nil, err
	}
	start := fmt.Appendf(nil, `{"t":"start","run":"trial","now":1,"seed":"%064d","limits":{},"program":{"code":%s}}`, 0, code)
	if err := w.execute(ctx, v, start); err != nil {
		return nil, err
	}
	if !bytes.Contains(w.out.end, []byte(`"value":[1,2]`)) {
		return nil, fmt.Errorf("the program ended with %s", w.out.end)
	}
	after, _ := v.memory.Read(0, uint32(len(image)))
	return differing(image, after), nil
}

// differing returns the pages of the system in which two images differ, neighbours joined.
func differing(a, b []byte) []extent {
	var all []extent
	size := int64(os.Getpagesize())
	for at := int64(0); at < int64(len(a)); at += size {
		if end := min(at+size, int64(len(a))); bytes.Equal(a[at:end], b[at:end]) {
			continue
		}
		if n := len(all); n > 0 && all[n-1].To == at {
			all[n-1].To = at + size
		} else {
			all = append(all, extent{at, at + size})
		}
	}
	return all
}

// boot evaluates the prelude and hands it the host functions.
func (v *vm) boot(ctx context.Context, prelude []byte, h *header) error {
	// The bundle declares one global; a function around it keeps the name from the guest.
	code := append([]byte("(()=>{"), prelude...)
	code = append(code, "\n;return __harness.default})()"...)
	boot, err := v.eval(ctx, code, "harness:prelude")
	if err != nil {
		return err
	}
	raw, err := v.invoke(ctx, "qjs_new_object")
	if err != nil {
		return err
	}
	host := handle(raw)
	for _, name := range []string{"send", "sendSync", "compile"} {
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
	entry, err := v.call(ctx, boot, host)
	if err != nil {
		return err
	}
	for name, to := range map[string]*handle{"start": &h.Start, "deliver": &h.Deliver, "settle": &h.Settle} {
		fn, err := v.property(ctx, entry, name)
		if err != nil {
			return err
		}
		if is, err := v.invoke(ctx, "qjs_is_function", uint32(fn)); err != nil || is == 0 {
			return errors.Join(fmt.Errorf("the guest runtime has no function %s", name), err)
		}
		*to = fn
	}
	return v.drain(ctx)
}

// explain gives an exception its message and stack. Only for the runtime's own errors: it may run guest code.
func (v *vm) explain(ctx context.Context, err error) error {
	var thrown *jsError
	if !errors.As(err, &thrown) {
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

func encodeSnapshot(h header, image []byte) ([]byte, error) {
	meta, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	snapshot := make([]byte, pageSize, pageSize+len(image))
	copy(snapshot, meta)
	return append(snapshot, image...), nil
}

// decodeHeader reads the first page of a snapshot; size is that of the whole.
func decodeHeader(page []byte, size int64) (h header, err error) {
	end := 0
	for end < len(page) && page[end] != 0 {
		end++
	}
	if err := json.Unmarshal(page[:end], &h); err != nil || h.Magic != snapshotMagic {
		return h, errors.New("not a snapshot of this version")
	}
	if h.Size <= 0 || h.Size%pageSize != 0 || size != pageSize+h.Size {
		return h, errors.New("the snapshot is incomplete")
	}
	return h, nil
}

// EngineHash identifies the engine in start records.
func EngineHash() string { return quickjs.SHA256 }
