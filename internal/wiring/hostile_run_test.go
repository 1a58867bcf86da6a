package wiring_test

import (
	"maps"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// hostileLimits are small, so that the test is quick. Only the time limits are large: a program that ends by another limit must have the time to reach it,
// even on a busy machine.
var hostileLimits = map[string]string{
	"sandbox.timeout": "2m", "sandbox.maxWall": "2m", "sandbox.memory": "32MiB", "sandbox.maxOutput": "256KiB",
	"sandbox.maxLogLines": "2000", "sandbox.maxCalls": "50", "sandbox.maxHostCalls": "2000",
}

// briefWall is maxWall for programs that wait. briefCompute is the timeout of programs that compute.
const (
	briefWall    = 4 * time.Second
	briefCompute = time.Second / 2
)

// hostileNode maps programs that end differently in Node.js to the kinds of their errors: V8 refuses a string that is too long, and a process that is out of
// memory ends.
var hostileNode = map[string]string{"native loop": frame.KindRuntime, "catching out of memory for ever": frame.KindMemory}

// slack is the time by which a run may exceed its limit on a busy machine. A program that is not stopped takes longer.
const slack = 30 * time.Second

// TestHostile runs every hostile program, and after each of them a harmless one, which shows that host and pool still work. Another run that is under way all
// the time must succeed too.
func TestHostile(t *testing.T) {
	f := setup(t, hostileLimits, demoServer(t, "database", t.TempDir()))
	brief := maps.Clone(hostileLimits)
	brief["sandbox.timeout"], brief["sandbox.maxWall"] = briefWall.String(), briefWall.String()
	waiting := setup(t, brief, demoServer(t, "database", t.TempDir()))
	// The bystander belongs to another user. It sleeps and computes while the hostile programs run.
	bystander := make(chan *run.Outcome, 1)
	stop := make(chan struct{})
	calm := setup(t, nil, demoServer(t, "database", t.TempDir()))
	go func() {
		ended := false
		for !ended {
			out, err := calm.Runs().Execute(t.Context(), runs.Request{Code: "await utils.sleep(20); return 7", User: "calm"})
			if err != nil || out.Error != nil || string(out.Output) != "7" {
				t.Errorf("a bystander's run ended %+v, %v", out, err)
				break
			}
			select {
			case <-stop:
				ended = true
			default:
			}
		}
		bystander <- nil
	}()
	f.value("return (await callMCPTool('database__query', {query: 'SELECT 1 AS n'})).length", nil)
	debug.FreeOSMemory()
	before := held()
	for _, program := range hostilePrograms {
		if other, ok := hostileNode[program.name]; ok && f.cfg.Sandbox.Tier == "process" {
			program.kind = other
		}
		t.Run(program.name, func(t *testing.T) {
			on, limit, timeout := f, 2*time.Minute, time.Duration(0)
			switch {
			case program.kind != frame.KindTimeout:
			case strings.Contains(program.code, "sleep") || strings.Contains(program.code, "setInterval"):
				on, limit = waiting, briefWall
			default:
				limit, timeout = briefCompute, briefCompute
			}
			began := time.Now()
			out, err := on.Runs().Execute(t.Context(), runs.Request{Code: program.code, User: "hostile", Timeout: timeout})
			took := time.Since(began)
			if err != nil {
				t.Fatal(err)
			}
			kind := ""
			if out.Error != nil {
				kind = out.Error.Kind
			}
			if kind != program.kind {
				t.Errorf("ended as %q (%+v), want %q; output %s", kind, out.Error, program.kind, out.Output)
			}
			if program.want != "" && string(out.Output) != program.want {
				t.Errorf("output %s, want %s", out.Output, program.want)
			}
			after, err := f.Runs().Execute(t.Context(), runs.Request{Code: "return [6*7, typeof leak, Object.keys(Object.prototype)]", User: "hostile"})
			if err != nil || after.Error != nil || string(after.Output) != `[42,"undefined",[]]` {
				t.Errorf("the next run ended %+v, %v", after, err)
			}
			if most := limit + slack; took > most {
				t.Errorf("took %s, want at most %s", took, most)
			}
		})
	}
	close(stop)
	<-bystander
	// The memory of this process, the host, must shrink again. The memory of the workers ends with them.
	deadline := time.Now().Add(patience)
	for held() > before+32<<20 && time.Now().Before(deadline) {
		debug.FreeOSMemory()
		time.Sleep(50 * time.Millisecond) // No signal announces this.
	}
	if now := held(); now > before+32<<20 {
		t.Errorf("the memory of the host grew from %d to %d MiB", before>>20, now>>20)
	}
}

// held returns the memory in bytes that Go's runtime holds from the system. Unlike resident memory, it does not contain the shadow memory of the race
// detector, which is never given back.
func held() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
