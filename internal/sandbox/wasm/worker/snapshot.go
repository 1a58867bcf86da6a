package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero/experimental"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

// Limits of building: the guest runtime needs far less.
const buildMemory = 64 << 20

// guestStack is QuickJS's stack in bytes: some 10,000 calls of a simple function. stackReserve is what its C code may use beyond that, which it
// checks at calls only. A page of it costs memory when it is first written to. For each call the machine code takes 7 KiB of another stack, of which
// wazero gives 84 MB: more would not make the recursion deeper.
const (
	guestStack   = 2560 << 10
	stackReserve = 512 << 10
)

// header says how to continue from an image. It fills the first page of a snapshot; the image follows.
type header struct {
	Magic string `json:"magic"`
	Stack uint64 `json:"stack"` // the stack pointer
	Size  int64  `json:"size"`  // bytes of the image
	// The guest runtime's entry points.
	Start   handle   `json:"start"`
	Deliver handle   `json:"deliver"`
	Settle  handle   `json:"settle"`
	StackOf handle   `json:"stackOf"`
	Data    []extent `json:"data"` // the parts of the image that are not zero
	// Hot are the parts of the image that every program writes to, found by running one.
	Hot []extent `json:"hot,omitempty"`
}

// extent is a part of the image, in bytes.
type extent struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

const snapshotMagic = "harness snapshot 5"

// Version changes with the form of what Build makes.
const Version = snapshotMagic

// The files of a directory that Build fills and workers start from.
const (
	codeDir      = "code"     // the compilation cache with the engine's machine code
	outlineFile  = "module"   // the engine without its code
	snapshotFile = "snapshot" // the memory to start from
)

// Build fills dir, an existing directory, with what workers start from: the engine's machine code and the memory in which
// prelude, the guest runtime, and its libraries are evaluated.
func Build(ctx context.Context, dir string, prelude, libraries []byte) error {
	module, outline, segments, err := split(quickjs.Wasm)
	if err != nil {
		return fmt.Errorf("read engine: %w", err)
	}
	full, err := os.MkdirTemp(dir, "full-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(full)
	e, err := newEngine(ctx, module, full)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, outlineFile), outline, 0o600); err != nil {
		return err
	}
	if err := fitOutline(ctx, outline, full, filepath.Join(dir, codeDir)); err != nil {
		return fmt.Errorf("store machine code: %w", err)
	}
	h, image, err := evaluate(ctx, e, segments, prelude, libraries)
	if err != nil {
		return err
	}
	// The trial is also the proof that the machine code fits the outline.
	if e, err = openEngine(ctx, dir); err != nil {
		return err
	}
	if h.Hot, err = trial(ctx, e, h, image); err != nil {
		return fmt.Errorf("try the snapshot: %w", err)
	}
	snapshot, err := encodeSnapshot(h, image)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, snapshotFile), snapshot, 0o600)
}

// fitOutline makes a compilation cache that has the machine code in the cache full for the outline. An entry of a cache
// depends on its module in nothing but its name, and compiling the outline tells the name.
func fitOutline(ctx context.Context, outline []byte, full, dir string) error {
	if _, err := newEngine(ctx, outline, dir); err != nil {
		return err
	}
	from, err := onlyFile(full)
	if err != nil {
		return err
	}
	to, err := onlyFile(dir)
	if err != nil {
		return err
	}
	return os.Rename(from, to)
}

// onlyFile returns the path of the one file below dir.
func onlyFile(dir string) (path string, err error) {
	files := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path = name
			files++
		}
		return err
	})
	if err == nil && files != 1 {
		err = fmt.Errorf("the compilation cache %s has %d files, want 1", dir, files)
	}
	return path, err
}

// openEngine loads the engine from a directory that Build has filled.
func openEngine(ctx context.Context, dir string) (*engine, error) {
	outline, err := os.ReadFile(filepath.Join(dir, outlineFile))
	if err != nil {
		return nil, err
	}
	return newEngine(ctx, outline, filepath.Join(dir, codeDir))
}

// evaluate runs the guest runtime in a new instance and returns the memory it leaves, with its header.
// Nothing of the machine enters: the engine sees constant time and entropy, so the same scripts give the same bytes.
func evaluate(ctx context.Context, e *engine, segments []segment, prelude, libraries []byte) (h header, image []byte, err error) {
	r, err := compileRuntime(ctx, e, segments, prelude, libraries)
	if err != nil {
		return h, nil, fmt.Errorf("compile the guest runtime: %w", err)
	}
	v, stack, err := e.initialize(ctx, segments)
	if err != nil {
		return h, nil, err
	}
	defer v.close(ctx)
	h.Magic = snapshotMagic
	if err := v.boot(ctx, r, stack, &h); err != nil {
		return h, nil, fmt.Errorf("evaluate the guest runtime: %w", v.explain(ctx, err))
	}
	if err := v.settleHeap(ctx); err != nil {
		return h, nil, err
	}
	h.Stack = v.module.ExportedGlobal("__stack_pointer").Get()
	memory, _ := v.memory.Read(0, v.memory.Size())
	h.Size = int64(len(memory))
	image = bytes.Clone(memory)
	clear(image[stack:h.Stack]) // remains of calls that have returned
	h.Data = differing(image, make([]byte, len(image)))
	return h, image, nil
}

// trial restores an image, runs a program that makes a call and returns the parts that were written to. A later
// instance has those copied before its program arrives.
func trial(ctx context.Context, e *engine, h header, image []byte) ([]extent, error) {
	in := newInbox()
	w := &worker{engine: e, header: h, limit: &limiter{}, out: &output{w: io.Discard}, in: in}
	w.limit.limit.Store(buildMemory)
	w.memory = func() (experimental.LinearMemory, error) {
		return &heapMemory{limit: w.limit, image: image, data: h.Data}, nil
	}
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
	if err := json.Unmarshal(bytes.TrimRight(page, "\x00"), &h); err != nil || h.Magic != snapshotMagic {
		return h, errors.New("not a snapshot of this version")
	}
	if h.Size <= 0 || h.Size%pageSize != 0 || size != pageSize+h.Size {
		return h, errors.New("the snapshot is incomplete")
	}
	return h, nil
}
