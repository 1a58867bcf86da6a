package wasm

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

// loopback answers every call at once, in place of a host.
type loopback struct{ in chan []byte }

var callID = regexp.MustCompile(`"t":"call".*?"id":(\d+)`)

func (l *loopback) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if m := callID.FindSubmatch(line); m != nil {
			l.in <- fmt.Appendf(nil, `{"t":"answer","run":"r","id":%s,"now":1000000,"value":{"n":1}}`+"\n", m[1])
		}
	}
	return len(b), nil
}

// BenchmarkCall is what one host call costs in the worker alone: guest runtime, engine, frames, without processes.
func BenchmarkCall(b *testing.B) {
	for name, body := range map[string]string{
		"tool": "await callMCPTool('bench__echo', {n: i})", "sleep": "await utils.sleep(1)", "null": "await null",
	} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			setup(b)
			s := setup(b)
			e, err := newEngine(ctx, quickjs.Wasm, s.code)
			if err != nil {
				b.Fatal(err)
			}
			l := &loopback{in: make(chan []byte, 16)}
			w := &worker{engine: e, limit: &limiter{}, out: &output{w: l}, in: l.in}
			w.limit.limit.Store(64 << 20)
			image := s.image
			w.header, w.memory, err = openImage(image, settings{Reserve: 64 << 20}, w.limit)
			if err != nil {
				b.Fatal(err)
			}
			e.send, e.sendSync = func(text []byte) { w.out.frame(text) }, w.sync
			v, err := w.instance(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer v.close(ctx)
			code := fmt.Sprintf(`(async (x) => { for (let i = 0; i < %d; i++) { %s } })`, b.N, body)
			b.ResetTimer()
			before := cpuTime(b)
			err = w.execute(ctx, v, fmt.Appendf(nil, `{"t":"start","run":"r","now":1000000,"seed":"%064d","program":{"code":%q},"limits":{}}`, 7, code))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			if !bytes.Contains(w.out.end, []byte(`"value"`)) {
				b.Fatalf("%s", w.out.end)
			}
		})
	}
}

// cpuTime is what this process has used, in nanoseconds: other processes disturb it less than they do the clock.
func cpuTime(b *testing.B) int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
