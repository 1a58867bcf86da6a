package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/slots"
	"mcp-code-exec-harness/internal/testing/child"
)

// TestMain makes the test binary a compiler process when Compiler executes it with CompilerCommand.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == CompilerCommand {
		os.Exit(CompilerMain(os.Args[2:], os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("mcp-code-exec-harness/internal/process.init.func1.1"))
}

// compilerProcesses returns a compiler that uses processes.
func compilerProcesses(t testing.TB) *Compiler {
	t.Helper()
	self := child.Executable(t)
	c := NewCompiler(process.SelfAt(self))
	t.Cleanup(c.Close)
	return c
}

// takeAll checks that no slot of an owner is held.
func takeAll(t *testing.T, c *Compiler, slots int) {
	t.Helper()
	for range slots {
		release := c.slots.TryAcquire("", 1)
		if release == nil {
			t.Fatal("a slot is held")
		}
		defer release()
	}
}

// TestAbandonedCompilation cancels a compilation while esbuild works, and then waits for the only slot, which that compilation still holds.
func TestAbandonedCompilation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var tasks atomic.Int32
		c := &Compiler{slots: slots.New(slots.Limits{All: 1, Each: 1}, "texts", "compiled"), do: func(t task) product {
			tasks.Add(1)
			<-release
			return t.do()
		}}
		opts := Options{Compiler: c, Resolver: sandbox{files: map[string]string{"/skills/slow.ts": "export default 1"}}}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := Compile(ctx, Source{Name: "slow.ts", Code: "return 1"}, opts)
			result <- err
		}()
		synctest.Wait()
		if tasks.Load() != 1 {
			t.Fatal("esbuild did not begin")
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "slow.ts") {
			t.Errorf("given up: %v", err)
		}

		// The cancelled compilation still holds the only slot. Waiting for the slot also ends with the context.
		for name, compile := range map[string]func(ctx context.Context) error{
			"/skills/slow.ts": func(ctx context.Context) error {
				_, err := CompileModule(ctx, "/skills/slow.ts", ProgramFile, opts)
				return err
			},
			"other.ts": func(ctx context.Context) error {
				_, err := Compile(ctx, Source{Name: "other.ts", Code: "return 2"}, opts)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			err := compile(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), name) || time.Since(begun) != time.Second {
				t.Errorf("waiting for a place, after %v: %v", time.Since(begun), err)
			}
		}
		if tasks.Load() != 1 {
			t.Errorf("%d tasks were begun in one place", tasks.Load())
		}

		close(release)
		synctest.Wait()
		if _, err := Compile(t.Context(), Source{Code: "return 1"}, opts); err != nil {
			t.Errorf("after its end: %v", err)
		}
		takeAll(t, c, 1)
	})
}

// TestSlowCompilation compiles a text for which esbuild takes too long.
func TestSlowCompilation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := &Compiler{slots: slots.New(slots.Limits{All: 3, Each: 2}, "texts", "compiled"), do: func(task) product { <-release; return product{} }}
		opts := Options{Compiler: c, Resolver: sandbox{files: map[string]string{"/skills/slow.ts": "export default 1"}}}
		for name, compile := range map[string]func() error{
			"slow.ts": func() error {
				_, err := Compile(t.Context(), Source{Name: "slow.ts", Code: "return 1"}, opts)
				return err
			},
			"/skills/slow.ts": func() error {
				_, err := CompileModule(t.Context(), "/skills/slow.ts", ProgramFile, opts)
				return err
			},
		} {
			begun := time.Now()
			var e *Error
			err := compile()
			if !errors.As(err, &e) || e.File != name || !strings.Contains(e.Message, "too long to compile: more than 1m0s") || e.Hint == "" {
				t.Errorf("%s: %v", name, err)
			}
			if errors.Is(err, context.DeadlineExceeded) || lasting(err) {
				t.Errorf("%s: the error is that of the caller's deadline, or of the text: %v", name, err)
			}
			if took := time.Since(begun); took != maxTextTime {
				t.Errorf("%s was given up after %v", name, took)
			}
		}
		close(release)
	})
}

// TestCompilerProcess checks that a process returns the same result as a compilation in this process.
func TestCompilerProcess(t *testing.T) {
	t.Parallel()
	c := compilerProcesses(t)
	opts := Options{
		Packages: packages(t),
		Resolver: sandbox{files: map[string]string{"/skills/a.ts": "export const a: number = 1", "/skills/b.mjs": "export default await 2"}},
	}
	for _, code := range []string{
		"return 1 as number",
		"import { a } from '/skills/a.ts'; import b from '/skills/b.mjs'; return a + b",
		"import plain from 'plain'; return plain",
		"return <div/>",
		"const a = ;",
		"import x from 'absent'; return x",
		"return 'é \\ud800 " + strings.Repeat("long ", 100_000) + "'",
	} {
		opts.Compiler = nil
		want, wantErr := Compile(t.Context(), Source{Code: code}, opts)
		opts.Compiler = c
		got, err := Compile(t.Context(), Source{Code: code}, opts)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%.60q: %v, here %v", code, err, wantErr)
			continue
		}
		if err == nil && (!cmp.Equal(got.Program, want.Program) || got.Map.String() != want.Map.String()) {
			t.Errorf("%.60q compiles to something else than here", code)
		}
	}
}

// TestCompilerProcessEnds kills the process between two compilations, and cancels a compilation.
func TestCompilerProcessEnds(t *testing.T) {
	t.Parallel()
	c := compilerProcesses(t)
	c.slots = slots.New(slots.Limits{All: 1, Each: 1}, "texts", "compiled")
	start := c.start
	started := make(chan *compiler, 10)
	stopped := false // reports that new processes are frozen, so that a compilation does not end
	c.start = func() (*compiler, error) {
		p, err := start()
		if stopped {
			process.Freeze(p.child.Process, true)
		}
		started <- p
		return p, err
	}
	compile := func(ctx context.Context, code string) error {
		_, err := Compile(ctx, Source{Code: code}, Options{Compiler: c})
		return err
	}
	for range 3 {
		if err := compile(t.Context(), "return 1"); err != nil || len(started) != 1 {
			t.Fatalf("%d processes for compilations one after another: %v", len(started), err)
		}
	}
	first := <-started
	first.kill()
	first.child.Wait()
	if err := compile(t.Context(), "return 2"); err != nil || len(started) != 1 {
		t.Errorf("after the process was killed: %d new ones, %v", len(started), err)
	}

	second := <-started // The process is killed, so that the next compilation starts a new one. That start is the signal that the compilation is under way.
	second.kill()
	second.child.Wait()
	stopped = true
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- compile(ctx, "switch (x) {"+strings.Repeat("case 1:", 100_000)+"}") }() // would take minutes
	slow := <-started
	stopped = false
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a compilation that is given up: %v", err)
	}
	if err := compile(t.Context(), "return 3"); err != nil || len(started) != 1 { // in the only slot
		t.Errorf("after a compilation was given up: %d new processes, %v", len(started), err)
	}
	if code := slow.child.Wait().ExitCode(); code == exitSlow {
		t.Error("the compilation that was given up was not ended")
	}
	c.Close()
	if err := compile(t.Context(), "return 4"); err != nil || len(c.idle) != 0 {
		t.Errorf("after Close: %v, %d processes are left", err, len(c.idle))
	}
}

// TestCompilerLimits compiles texts that would take minutes or grow without bounds in esbuild. The compiler process ends; this process does not.
func TestCompilerLimits(t *testing.T) {
	t.Parallel()
	var doubling strings.Builder
	doubling.WriteString("enum E { a0 = 'xxxxxxxxxxxxxxxx'")
	for i := range 40 {
		fmt.Fprintf(&doubling, ", a%d = a%d + a%d", i+1, i, i)
	}
	opts := Options{Compiler: compilerProcesses(t)}
	for name, c := range map[string]struct{ code, want string }{
		"many cases":            {"switch (x) {" + strings.Repeat("case 1:", 100_000) + "}", "takes too long"},
		"an enum that doubles":  {doubling.String() + "}", "too much memory"},
		"an enum that is used":  {"const enum E { a = '" + strings.Repeat("x", 50_000) + "'}; f(" + strings.Repeat("E.a,", 1000) + ")", "larger than"},
		"blocks with much code": {strings.Repeat("{", 400) + strings.Repeat("x;", 50_000) + strings.Repeat("}", 400), "larger than"},
	} {
		var e *Error
		_, err := Compile(t.Context(), Source{Code: c.code}, opts)
		if !errors.As(err, &e) || !strings.Contains(e.Message, c.want) && !(slowed && strings.Contains(e.Message, "takes too long")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCompilerStart uses an executable that does not exist.
func TestCompilerStart(t *testing.T) {
	t.Parallel()
	c := NewCompiler(process.SelfAt("/nonexistent/harness"))
	defer c.Close()
	_, err := Compile(t.Context(), Source{Name: "a.ts", Code: "return 1"}, Options{Compiler: c})
	var e *Error
	if err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "a.ts") || !strings.Contains(err.Error(), "/nonexistent/harness") {
		t.Errorf("%v", err)
	}
	takeAll(t, c, max(2, runtime.GOMAXPROCS(0)))
}

// BenchmarkCompilerProcess compiles small programs that were not compiled before, in one process: budget 1.5 ms.
func BenchmarkCompilerProcess(b *testing.B) {
	opts := Options{Compiler: compilerProcesses(b)}
	n := 0
	for b.Loop() {
		n++
		mustCompile(b, benchmarkProgram+fmt.Sprint(n), opts)
	}
}

// BenchmarkCompilerStart starts a process for each compilation.
func BenchmarkCompilerStart(b *testing.B) {
	for b.Loop() {
		c := compilerProcesses(b)
		mustCompile(b, benchmarkProgram, Options{Compiler: c})
		c.Close()
	}
}
