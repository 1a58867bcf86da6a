package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/guest"
)

// loopback stands in for a host: it answers every call at once.
type loopback struct{ in *inbox }

var callID = regexp.MustCompile(`"t":"call".*?"id":(\d+)`)

func (l *loopback) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if m := callID.FindSubmatch(line); m != nil {
			l.in.put(fmt.Appendf(nil, `{"t":"answer","run":"r","id":%s,"now":1000000,"value":{"n":1}}`+"\n", m[1]))
		}
	}
	return len(b), nil
}

// builtEngine builds the files that workers start from, and loads the engine.
func builtEngine(b testing.TB) (*engine, *os.File) {
	b.Helper()
	dir := b.TempDir()
	prelude, err := guest.Bundle()
	if err != nil {
		b.Fatal(err)
	}
	if err := Build(b.Context(), dir, prelude, guest.Libraries()); err != nil {
		b.Fatal(err)
	}
	e, err := openEngine(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	image, err := ShareSnapshot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { image.Close() })
	return e, image
}

// bareWorker returns a worker that runs in this process. A loopback answers its calls.
func bareWorker(b testing.TB) *worker {
	b.Helper()
	e, image := builtEngine(b)
	l := &loopback{in: newInbox()}
	w := &worker{engine: e, limit: &limiter{}, out: &output{w: l}, in: l.in}
	w.limit.limit.Store(64 << 20)
	var err error
	if w.header, w.memory, err = openImage(image, Settings{Reserve: 64 << 20}, w.limit); err != nil {
		b.Fatal(err)
	}
	e.send, e.sendSync = func(text []byte) { w.out.frame(text) }, w.sync
	return w
}

// program executes code in its own instance, and fails the benchmark if the code fails.
func (w *worker) program(b *testing.B, v *vm, code string) {
	b.Helper()
	start := fmt.Appendf(nil, `{"t":"start","run":"r","now":1000000,"seed":"%064d","program":{"code":%q},"limits":{}}`, 7, code)
	if err := w.execute(b.Context(), v, start); err != nil {
		b.Fatal(err)
	}
	if !bytes.Contains(w.out.end, []byte(`"value"`)) {
		b.Fatalf("%s", w.out.end)
	}
	w.out.end = nil
}

// If a program's memory is full when a host function copies a string, the program ends with the kind memory, and cannot catch the error.
func TestMemoryFullInHostCall(t *testing.T) {
	w := bareWorker(t)
	ctx := t.Context()
	v, err := w.instance(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer v.close(ctx)
	const size = 8 << 20
	text, err := v.newString(ctx, bytes.Repeat([]byte("\u00e9"), size/2)) // A text of ASCII would not be copied.
	if err != nil {
		t.Fatal(err)
	}
	name, err := v.alloc(ctx, []byte("send"))
	if err != nil {
		t.Fatal(err)
	}
	argv, err := v.reserve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v.memory.WriteUint32Le(argv, uint32(text))
	for err == nil {
		_, err = v.alloc(ctx, make([]byte, size/2)) // leaves no room for a copy
	}
	stack := []uint64{uint64(name), 4, 0, 1, uint64(argv)}
	w.engine.hostCall(ctx, v, stack)
	if stack[0] != 0 || !errors.Is(w.engine.stopped(), errMemory) {
		t.Errorf("the call returned %d, the program is stopped by %v", stack[0], w.engine.stopped())
	}
	if e := ending(w.engine.stopped(), ""); e.Kind != "memory" {
		t.Errorf("the ending is %+v", e)
	}
}

// BenchmarkCall measures a host call in the worker alone: guest runtime, engine and frames, without processes.
func BenchmarkCall(b *testing.B) {
	for name, body := range map[string]string{
		"tool": "await callMCPTool('bench__echo', {n: i})", "sleep": "await utils.sleep(1)", "null": "await null",
		"random": "Math.random()", "log": "if (i < 1000) console.log(i)",
	} {
		b.Run(name, func(b *testing.B) {
			w := bareWorker(b)
			v, err := w.instance(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer v.close(b.Context())
			b.ResetTimer()
			before := cpuTime(b)
			w.program(b, v, fmt.Sprintf(`(async (x) => { for (let i = 0; i < %d; i++) { %s } })`, b.N, body))
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkRun measures a whole run in the worker alone: a new instance, `return 1`, and the end of the run. run-ns is the part for which a caller waits.
func BenchmarkRun(b *testing.B) {
	w := bareWorker(b)
	before := cpuTime(b)
	var waited time.Duration
	for b.Loop() {
		v, err := w.instance(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		at := time.Now()
		w.program(b, v, "(async () => { return 1 })")
		waited += time.Since(at)
		v.close(b.Context())
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(waited.Nanoseconds())/float64(b.N), "run-ns/op")
}

// cpuTime returns the processor time of this process in nanoseconds. Other processes affect it less than the elapsed time.
func cpuTime(b *testing.B) int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
