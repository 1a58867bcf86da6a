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

// buildMemory is the maximum memory in bytes while building a snapshot. The guest runtime needs far less.
const buildMemory = 64 << 20

// guestStack is the size of QuickJS's stack in bytes, enough for some 10,000 calls of a simple function. stackReserve is the additional space for
// its C code, because QuickJS checks the stack only at calls. A page of the stack takes memory once it is written to. A larger stack would not
// allow deeper recursion: for each call the machine code takes 7 KiB of another stack, which wazero limits to 84 MB.
const (
	guestStack   = 2560 << 10
	stackReserve = 512 << 10
)

// header describes how to continue from an image. It fills the first page of a snapshot; the image follows.
type header struct {
	Magic string `json:"magic"`
	Stack uint64 `json:"stack"` // stack pointer
	Size  int64  `json:"size"`  // size of the image in bytes
	// Entry points of the guest runtime.
	Start   handle   `json:"start"`
	Deliver handle   `json:"deliver"`
	Settle  handle   `json:"settle"`
	StackOf handle   `json:"stackOf"`
	Data    []extent `json:"data"` // parts of the image that are not zero
	// Hot are the parts of the image that every program writes to, found by a trial run.
	Hot []extent `json:"hot,omitempty"`
}

// extent is a byte range of the image.
type extent struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

const snapshotMagic = "harness snapshot 5"

// Version identifies the format of the files that Build writes.
const Version = snapshotMagic

// Names in the directory that Build fills and workers start from.
const (
	codeDir      = "code"     // compilation cache with the engine's machine code
	outlineFile  = "module"   // outline of the engine
	snapshotFile = "snapshot" // initial memory
)

// Build fills dir, an existing directory, with the files that workers start from. They are the engine's machine code, and the memory after
// prelude, which is the guest runtime, and its libraries were evaluated.
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
	// The trial also proves that the machine code fits the outline.
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

// fitOutline makes a compilation cache for the outline in the directory dir. Its entry for the outline contains the machine code of the whole engine, from
// the cache in the directory full. Only the name of a cache entry depends on the module. So fitOutline compiles the outline, which creates an entry with the
// right name, and replaces the content of this entry by that of the entry in full.
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

// onlyFile returns the path of the only file below dir.
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

// evaluate runs the guest runtime in a new instance and returns the resulting memory with its header.
// The engine sees constant time and entropy, so the same scripts give the same bytes on every machine.
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
	clear(image[stack:h.Stack]) // erases the remains of finished calls on the stack
	h.Data = differing(image, make([]byte, len(image)))
	return h, image, nil
}

// trial restores an image, runs a program that makes a call, and returns the parts that were written to. Later
// instances copy those parts before their program arrives.
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

// differing returns the system pages in which two images differ. It joins adjacent pages.
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

// decodeHeader decodes the first page of a snapshot. size is the size of the whole snapshot.
func decodeHeader(page []byte, size int64) (h header, err error) {
	if err := json.Unmarshal(bytes.TrimRight(page, "\x00"), &h); err != nil || h.Magic != snapshotMagic {
		return h, errors.New("not a snapshot of this version")
	}
	if h.Size <= 0 || h.Size%pageSize != 0 || size != pageSize+h.Size {
		return h, errors.New("the snapshot is incomplete")
	}
	return h, nil
}
