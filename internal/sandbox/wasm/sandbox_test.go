package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
	"mcp-code-exec-harness/internal/testing/child"
)

// TestMain makes the test binary a worker when the sandbox re-executes it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == nativeRole && os.Args[2] == worker.Command {
		os.Exit(hostileMain(os.Args[3:]))
	}
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 2 && (strings.HasPrefix(os.Args[1], "{") || os.Args[1] == jail.LauncherCommand) { // acts as the embedded program
		os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// cacheDir is shared by all tests of this process, because building takes half a second.
var cacheDir string

func setup(t testing.TB) *Sandbox {
	t.Helper()
	if cacheDir == "" {
		dir, err := os.MkdirTemp("", "harness-wasm-test-")
		if err != nil {
			t.Fatal(err)
		}
		cacheDir = dir
	}
	s, err := Open(t.Context(), Options{Program: process.SelfAt(child.Executable(t)), Dir: cacheDir, MaxMemory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func execute(t testing.TB, r sandbox.Runner, run, code string) *frame.Frame {
	t.Helper()
	err := r.Send(&frame.Frame{
		T: frame.Start, Run: run, Now: 1e15, Seed: strings.Repeat("ab", 32),
		Program: &frame.Program{Code: code}, Limits: &frame.Limits{Memory: 64 << 20, InFlight: 10, MaxValue: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case f, ok := <-r.Frames():
			if !ok {
				t.Fatalf("runner ended: %v", r.Err())
			}
			switch f.T {
			case frame.Call:
				r.Send(&frame.Frame{T: frame.Answer, Run: run, ID: f.ID, Sync: f.Sync, Now: 2e15, Value: f.Args})
			case frame.Done:
				return f
			}
		case <-deadline:
			t.Fatal("no done frame")
		}
	}
}

func reset(t testing.TB, r sandbox.Runner) {
	t.Helper()
	if err := r.Send(&frame.Frame{T: frame.Reset}); err != nil {
		t.Fatal(err)
	}
	for f := range r.Frames() {
		if f.T == frame.Ready {
			return
		}
	}
	t.Fatalf("runner ended: %v", r.Err())
}

func TestRunnerExecutesAndResets(t *testing.T) {
	s := setup(t)
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	for i, code := range []string{"(async()=>{globalThis.left=1;return 1+1})", "(async()=>typeof left)"} {
		f := execute(t, r, "run_"+string(rune('a'+i)), code)
		if f.Error != nil {
			t.Fatalf("%v", f.Error)
		}
		want := []string{"2", `"undefined"`}[i]
		if string(f.Value) != want {
			t.Errorf("program %d: got %s, want %s", i, f.Value, want)
		}
		reset(t, r)
	}
}

// A simple function can call itself 10,000 times, in each run of a runner. The error of an endless recursion can be caught.
func TestRecursion(t *testing.T) {
	s := setup(t)
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	const finite = "(async()=>{const sum=n=>n===0?0:n+sum(n-1); function f(n){return n===0?0:1+f(n-1)}; return [sum(9900),f(10000)]})"
	var programs []string
	for _, endless := range []string{
		"function f(){f()}f()", "const f=n=>1+f(n);f(1)", "const f=()=>[1].map(f);f()", "const f=()=>'a'.replace('a',f);f()",
		"const o={toString(){return ''+o}};''+o", "const o={get x(){return this.x}};o.x", "class A{constructor(){new A()}};new A()",
		"async function f(){await f()};await f()", "function*f(){yield*f()};[...f()]", "const f=()=>Reflect.apply(f,null,[]);f()",
		"let f=()=>g();const g=()=>f.call();f()", "const p=new Proxy({},{get:(t,k,r)=>r[k]});p.x", "const f=(...a)=>{try{f(...a)}finally{}};f()",
	} {
		programs = append(programs, "(async()=>{try{"+endless+"}catch(e){return e instanceof RangeError&&e.message}})", finite)
	}
	for i, code := range programs {
		f := execute(t, r, fmt.Sprint("run_", i), code)
		want := `"Maximum call stack size exceeded"`
		if code == finite {
			want = "[49009950,10000]"
		}
		if f.Error != nil || string(f.Value) != want {
			t.Fatalf("%s: got %s, %v", code, f.Value, f.Error)
		}
		reset(t, r)
	}
}

// A program that is interrupted reports its position, even if its code tries to catch the interruption. The next program is not affected.
func TestInterruptedAt(t *testing.T) {
	s := setup(t)
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	for i, loop := range []string{
		"for(;;)f()", "try{for(;;)f()}catch{}finally{f()}", "await null;for(;;)f()", "Object.defineProperty(Error.prototype,'stack',{get(){for(;;);}});for(;;)f()",
	} {
		run := fmt.Sprint("run_", i)
		code := "(async()=>{const f=()=>1;console.log('begins');\n\nasync function spin(){" + loop + "};await spin()})"
		start := &frame.Frame{
			T: frame.Start, Run: run, Now: 1e15, Seed: strings.Repeat("ab", 32), Program: &frame.Program{Code: code},
			Limits: &frame.Limits{Memory: 64 << 20, InFlight: 10, MaxValue: 1 << 20},
		}
		if err := r.Send(start); err != nil {
			t.Fatal(err)
		}
		for f := range r.Frames() {
			if f.T == frame.Log { // The program runs by then.
				r.Send(&frame.Frame{T: frame.Cancel, Run: run})
			}
			if f.T == frame.Done {
				if f.Error == nil || f.Error.Kind != frame.KindCancelled || !strings.Contains(f.Error.Stack, "spin (program.js:3:") {
					t.Errorf("%s ended with %+v", loop, f.Error)
				}
				break
			}
		}
		reset(t, r)
		if f := execute(t, r, run+"b", "(async()=>1+1)"); string(f.Value) != "2" {
			t.Errorf("the next program: %s, %v", f.Value, f.Error)
		}
		reset(t, r)
	}
}

// A worker is behind all walls of the operating system, and has only its own files open.
func TestWalls(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has walls")
	}
	s := setup(t)
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	if missing := s.Missing(); len(missing) > 0 {
		t.Skip("package jail tests whether this is right: ", missing)
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.Pid()))
	if err != nil || len(open) < 4 {
		t.Fatalf("open files: %v, %v", open, err)
	}
	for _, path := range open {
		file, _ := os.Readlink(path)
		own := []string{"pipe:", "anon_inode:", "/memfd:harness-snapshot", fmt.Sprintf("/proc/%d/pagemap", r.Pid()), "/sys/fs/cgroup/"} // Go opens the last of these.
		if !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(file, prefix) }) {
			t.Errorf("it has %s open", file)
		}
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.Pid())); err != nil || len(line) == 0 || strings.Contains(string(line), "/") {
		t.Errorf("its command line has a path of this machine: %q, %v", line, err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", r.Pid()))
	if err != nil || strings.Count(string(mounts), "\n") != 1 {
		t.Errorf("its mounts: %s, %v", mounts, err)
	}
}

// Machine code of another processor is refused. Without this check, the outline would be executed in its place.
func TestForeignMachineCode(t *testing.T) {
	s, err := Open(t.Context(), Options{Program: process.SelfAt(child.Executable(t)), Dir: t.TempDir(), MaxMemory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.RemoveAll(filepath.Join(s.dir, "code")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "remove") {
		t.Errorf("got %v, %v", r, err)
	}
}

func BenchmarkReturn1(b *testing.B) {
	s := setup(b)
	r, err := s.Start(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Kill()
	var resets time.Duration
	for b.Loop() {
		f := execute(b, r, "run_x", "(async()=>1)")
		if string(f.Value) != "1" {
			v, _ := json.Marshal(f)
			b.Fatalf("%s", v)
		}
		at := time.Now()
		reset(b, r)
		resets += time.Since(at)
	}
	b.ReportMetric(float64(resets.Microseconds())/float64(b.N), "reset-us/op")
}

// A program that prints without end ends soon after it is cancelled, although it rarely reaches the engine's interrupt hook. On a busy machine a worker gets
// the cancel frame late, so the test uses the best of several tries.
func TestFloodIsCancelled(t *testing.T) {
	s := setup(t)
	r, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Kill()
	least := math.MaxInt
	for try := 0; try < 10 && least > 20; try++ { // The program reaches the hook only after hundreds of lines.
		least = min(least, linesAfterCancel(t, r))
	}
	if least > 20 {
		t.Errorf("%d more lines", least)
	}
}

// linesAfterCancel cancels a program that prints without end, and resets the runner.
func linesAfterCancel(t *testing.T, r sandbox.Runner) (more int) {
	t.Helper()
	if err := r.Send(&frame.Frame{
		T: frame.Start, Run: "run_a", Now: 1e15, Seed: strings.Repeat("ab", 32), Limits: &frame.Limits{Memory: 64 << 20, InFlight: 10, MaxValue: 1 << 20},
		Program: &frame.Program{Code: "(async()=>{for (;;) console.log('x'.repeat(50000))})"},
	}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		<-r.Frames()
	}
	if err := r.Send(&frame.Frame{T: frame.Cancel, Run: "run_a"}); err != nil {
		t.Fatal(err)
	}
	for f := range r.Frames() {
		if f.T == frame.Done {
			break
		}
		more++
	}
	reset(t, r)
	return more
}
