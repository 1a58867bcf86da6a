package wiring_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// Rule 6, endings: endings that the host decides are recorded. A replay reports them without waiting as long as the run did.
func TestRuleEndings(t *testing.T) {
	t.Parallel()
	limits := map[string]string{
		"sandbox.memory": "24MiB", "sandbox.maxOutput": "64KiB", "sandbox.maxHostCalls": "50", "sandbox.maxCalls": "5",
	}
	up := newUpstream(t, "up").entry
	f := setup(t, limits, up)
	limits["sandbox.timeout"], limits["sandbox.maxWall"] = "2s", "2s"
	brief := setup(t, limits, up)
	const begin = `console.log('begin'); await tools.up.read({}); `
	for name, c := range map[string]struct{ code, kind string }{
		"timeout":                 {begin + `for (;;) {}`, frame.KindTimeout},
		"timeout with calls open": {begin + `tools.up.read({}); setInterval(() => {}, 100); for (;;) {}`, frame.KindTimeout},
		"maxWall":                 {begin + `await utils.sleep(1e6)`, frame.KindTimeout},
		"caught maxWall":          {begin + `try { await utils.sleep(1e6) } catch {} await tools.up.send({})`, frame.KindTimeout},
		"memory":                  {begin + `const all = []; for (;;) all.push(new Uint8Array(1 << 20))`, frame.KindMemory},
		"memory with calls": {
			begin + `for (let i = 0; i < 40; i++) tools.up.read({ n: i }); const all = []; for (;;) all.push(new Uint8Array(1 << 20))`, frame.KindMemory,
		},
		"output":        {begin + `return 'x'.repeat(1e5)`, frame.KindOutputLimit},
		"logs":          {begin + `for (;;) console.log('x'.repeat(1000))`, frame.KindOutputLimit},
		"calls":         {begin + `for (;;) await tools.up.read({})`, frame.KindCallLimit},
		"host calls":    {begin + `for (;;) await utils.sleep(0)`, frame.KindCallLimit},
		"never settles": {begin + `await new Promise(() => {})`, frame.KindNeverSettles},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := f
			if c.kind == frame.KindTimeout {
				f = brief
			}
			out, err := f.Runs().Execute(t.Context(), runs.Request{Code: c.code, User: name}) // Each user gets another runner.
			if err != nil || kind(out) != c.kind || out.Status != run.Failed {
				t.Fatalf("ended as %+v, %v, want %s", out.Error, err, c.kind)
			}
			records := f.journalOf(out.RunID)
			if end := records[len(records)-1].End; end == nil || end.Status != out.Status {
				t.Errorf("the last record is %+v", records[len(records)-1])
			}
			again := f.replayed(edited(t, records, func(r *journal.Record) {
				if r.Start == nil {
					return
				}
				var limits run.Limits
				if err := json.Unmarshal(r.Start.Limits, &limits); err != nil {
					t.Error(err)
				}
				limits.Timeout, limits.MaxWall = time.Hour, time.Hour // With these limits, a replay that waited for its own ending would not end.
				r.Start.Limits, _ = json.Marshal(limits)
			}), "")
			if kind(again) != c.kind || again.Error.Message != out.Error.Message || !slices.Equal(again.Logs, out.Logs) || again.Status != out.Status {
				t.Errorf("replay ended %s, %+v; recorded is %+v", again.Status, again.Error, out.Error)
			}
		})
	}
}

// A program can be cancelled in every state.
func TestRuleEndingsCancelled(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	f := setup(t, nil, u.entry)
	t.Cleanup(func() {
		if calls := u.called(); len(calls) != 0 {
			t.Errorf("a cancelled program went on: %v", calls)
		}
	})
	for name, program := range map[string]string{
		"for ever": `console.log('now'); for (;;) {}`,
		"waiting":  `console.log('now'); await utils.sleep(1e6); return 1`,
		"catching": `console.log('now'); try { await utils.sleep(1e6) } finally { await tools.up.send({ cleanup: 1 }) }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, err := f.Runs().Execute(ctx, runs.Request{Code: program, User: name, Observe: func(e run.Event) {
				if e.Log != nil || e.Call != nil {
					cancel()
				}
			}})
			if err != nil || kind(out) != frame.KindCancelled || out.Status != run.Cancelled {
				t.Fatalf("ended %+v, %v", out, err)
			}
			again := f.replayed(f.journalOf(out.RunID), "")
			if kind(again) != frame.KindCancelled || again.Status != run.Cancelled || !slices.Equal(again.Logs, out.Logs) {
				t.Errorf("replay ended %s, %+v", again.Status, again.Error)
			}
		})
	}
}

// A program that was cancelled while it computed may end by itself in a replay.
func TestRuleEndingsCancelledAndReplayed(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	out := f.exec(code(`console.log('now'); for (let i = 0; i < 1000; i++) {} return 1`))
	again := f.replayed(edited(t, f.journalOf(out.RunID), func(r *journal.Record) {
		if r.End != nil {
			r.End.Status, r.End.Output, r.End.Error = run.Cancelled, json.RawMessage("null"), json.RawMessage(`{"kind":"cancelled","message":"x"}`)
		}
	}), "")
	if kind(again) != frame.KindCancelled || again.Status != run.Cancelled || !slices.Equal(again.Logs, out.Logs) {
		t.Errorf("replay ended %s, %+v", again.Status, again.Error)
	}
}

// A worker is killed while its program computes, and while the program waits.
func TestRuleEndingsCrash(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	f := setup(t, map[string]string{"sandbox.pool": "1"}, u.entry)
	pool, err := f.Tiers().Pool("")
	if err != nil {
		t.Fatal(err)
	}
	pool.KeepWarm(1)
	for _, c := range []struct{ name, code string }{
		{"waiting", `await tools.up.read({ n: 1 }); await utils.sleep(1e6)`},
		{"computing", `await tools.up.read({ n: 1 }); console.log('busy'); for (let i = 0; i < 1e7; i++) {} await tools.up.send({}); return 1`},
	} {
		f.value(`return 1`, nil)
		eventually(t, "the runner is idle", func() bool { return len(pool.Pids()) == 1 })
		pid := pool.Pids()[0]
		if pid == 0 {
			t.Skip("a container is no process of this machine; TestKilledByOthers of package docker kills one")
		}
		out, err := f.Runs().Execute(t.Context(), runs.Request{Code: c.code, Observe: func(e run.Event) {
			if e.Answer != nil && e.Answer.N == 1 {
				p, err := os.FindProcess(pid)
				if err == nil {
					err = p.Kill()
				}
				if err != nil {
					t.Error(err)
				}
			}
		}})
		if err != nil || kind(out) != frame.KindCrash || out.Status != run.Failed {
			t.Fatalf("%s: ended as %+v, %v", c.name, out, err)
		}
		again := f.replayed(f.journalOf(out.RunID), "")
		if kind(again) != frame.KindCrash || again.Error.Message != out.Error.Message {
			t.Errorf("%s: replay ended as %+v, recorded is %+v", c.name, again.Error, out.Error)
		}
	}
	for _, call := range u.called() {
		if call != `read {"n":1}` {
			t.Errorf("a crashed program went on: %s", call)
		}
	}
}

// A call fails like any function if the stack has too little room for it, and later calls work.
func TestRuleEndingsFullStack(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	for _, code := range []string{
		`const f = () => { try { return f() } catch (e) { return fs.existsSync('/workspace') && e.name } }; return f()`,
		`let fired = 0, set = false; const f = () => { try { f() } catch (e) { if (!set) { setTimeout(() => fired++, 1); set = true } throw e } };
		 try { f() } catch (e) { await utils.sleep(50); return fired === 1 && e.name }`,
	} {
		if out := f.exec(runs.Request{Code: code}); out.Error != nil || string(out.Output) != `"RangeError"` {
			t.Errorf("%s: %s, %+v", code, out.Output, out.Error)
		}
	}
}
