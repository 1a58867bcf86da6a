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

// hostileLimits are small, so that the table is quick, but for those of time: a program that ends by another limit has
// time to reach it, also on a busy machine.
var hostileLimits = map[string]string{
	"sandbox.timeout": "2m", "sandbox.maxWall": "2m", "sandbox.memory": "32MiB", "sandbox.maxOutput": "256KiB",
	"sandbox.maxLogLines": "2000", "sandbox.maxCalls": "50", "sandbox.maxHostCalls": "2000",
}

// briefWall is maxWall of the programs that wait; briefCompute is the timeout of those that compute.
const (
	briefWall    = 4 * time.Second
	briefCompute = time.Second / 2
)

// hostileNode are programs that end otherwise in Node.js: V8 refuses a string that is too long, and a process without memory ends.
var hostileNode = map[string]string{"native loop": frame.KindRuntime, "catching out of memory for ever": frame.KindMemory}

// slack is what a run may take beyond its limit on a busy machine. One that is not stopped takes longer.
const slack = 30 * time.Second

// TestHostile runs every hostile program, and after each one a harmless one: host and pool are unharmed. Another run
// that was under way all the time must end well too.
func TestHostile(t *testing.T) {
	f := setup(t, hostileLimits, demoServer(t, "database", t.TempDir()))
	brief := maps.Clone(hostileLimits)
	brief["sandbox.timeout"], brief["sandbox.maxWall"] = briefWall.String(), briefWall.String()
	waiting := setup(t, brief, demoServer(t, "database", t.TempDir()))
	// The bystander sleeps and computes while the others rage; it belongs to another user.
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
	// Memory of this process (host) must come back; the workers' is gone with them.
	deadline := time.Now().Add(patience)
	for held() > before+32<<20 && time.Now().Before(deadline) {
		debug.FreeOSMemory()
		time.Sleep(50 * time.Millisecond) // there is no signal for it
	}
	if now := held(); now > before+32<<20 {
		t.Errorf("the memory of the host grew from %d to %d MiB", before>>20, now>>20)
	}
}

// held is the memory in bytes that Go's runtime holds of the system: resident memory, but for the shadow of it that the
// race detector keeps and never gives back.
func held() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
