package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/wasm"
)

// inGuest runs scripts as compiled programs in the wasm tier, with the run loop of the host.
type inGuest struct {
	box      sandbox.Sandbox
	pool     *sandbox.Pool
	cache    *program.Cache
	sequence atomic.Int64
}

// endMark is what a program prints at its end. A promise that is rejected afterwards fails the run, but not the test.
const endMark = "the end of the test"

func openGuest(ctx context.Context, o options) (place, error) {
	box, err := wasm.Open(ctx, wasm.Options{Dir: filepath.Join(o.out, "cache")})
	if err != nil {
		return nil, err
	}
	return &inGuest{box: box, pool: openPool(box, o), cache: program.NewCache()}, nil
}

func openPool(box sandbox.Sandbox, o options) *sandbox.Pool {
	return sandbox.NewPool(box, sandbox.PoolOptions{Size: o.parallel + 1, PerOwner: o.parallel})
}

func (*inGuest) name() string { return "guest" }
func (*inGuest) web() bool    { return true }

func (g *inGuest) close() {
	g.pool.Close()
	g.box.Close()
}

func (g *inGuest) run(ctx context.Context, _ int, t *test, s *script) *outcome {
	opts := program.Options{Cache: g.cache, Prelude: []program.Source{{Name: "setup.js", Code: g.setup(s)}}}
	compiled, err := program.Compile(ctx, program.Source{Name: "test.js", Code: s.code + "\n;console.log('" + endMark + "');"}, opts)
	if wrong := (*program.Error)(nil); errors.As(err, &wrong) {
		return &outcome{phase: "parse", name: "SyntaxError", message: wrong.Error()}
	}
	if err != nil {
		return &outcome{phase: "crash", message: err.Error()}
	}
	text, err := json.Marshal(compiled.Program)
	if err != nil {
		return &outcome{phase: "crash", message: err.Error()}
	}
	out := execute(ctx, g.pool, fmt.Sprintf("run_%d", g.sequence.Add(1)), text, answers{s.files})
	for i, l := range out.lines {
		if l == endMark {
			out.lines = append(out.lines[:i], out.lines[i+1:]...)
			if out.phase == "runtime" {
				out.phase = ""
			}
			break
		}
	}
	return out
}

// setup returns a module that evaluates the setup of a script. Its declarations become global.
func (g *inGuest) setup(s *script) string {
	text := "var print = (text) => console.log(String(text));\n" + s.setup
	for _, name := range globals(s.setup) {
		text += fmt.Sprintf("\ntry { globalThis.%s = %[1]s; } catch {}", name) // the name may be declared in a function
	}
	quoted, _ := json.Marshal(text) // a string always encodes
	return "(0, eval)(" + string(quoted) + ");"
}

// execute runs a compiled program.
func execute(ctx context.Context, pool *sandbox.Pool, id string, text json.RawMessage, gate run.Gate) *outcome {
	info := pool.Info()
	out, err := run.Execute(ctx, &run.Spec{
		Start: journal.Start{
			Run: id, Program: text, Seed: strings.Repeat("5a", 32), Time: time.Now().UnixMicro(), Tier: info.Tier, Engine: info.Engine, Prelude: info.Prelude,
		},
		Owner: "conformance", Journal: journal.Discard, Runners: pool, Gate: gate, Now: time.Now,
		Locate: func(e *frame.Error) *run.Error {
			return &run.Error{Kind: e.Kind, Name: e.Name, Message: e.Message, Stack: e.Stack}
		},
		Limits: run.Limits{
			Timeout: time.Hour, MaxWall: time.Hour, Memory: 256 << 20, MaxOutput: 16 << 20, MaxLogLines: 1e5, MaxHostCalls: 1e6, MaxInFlight: 100, MaxValue: 8 << 20,
		},
	})
	if err != nil {
		return &outcome{phase: "crash", message: err.Error()}
	}
	made := &outcome{}
	for _, l := range out.Logs {
		made.lines = append(made.lines, l.Text)
	}
	if e := out.Error; e != nil {
		made.phase, made.name, made.message = "runtime", e.Name, e.Message
		switch e.Kind {
		case frame.KindSyntax:
			made.phase, made.name = "parse", "SyntaxError"
		case frame.KindCrash, frame.KindMemory, frame.KindCancelled, frame.KindTimeout, frame.KindOutputLimit:
			made.phase, made.message = "crash", e.Kind+": "+e.Message
		}
	}
	return made
}

// answers is the gate of a test. It reads the files that the test fetches, and answers about time zones.
type answers struct{ files map[string]string }

func (answers) Serial(*journal.Call) bool { return false }

func (a answers) Prepare(c *journal.Call, _ *journal.Intent) run.Pending {
	return func(context.Context, run.InFlight) (json.RawMessage, *frame.Error) {
		value, err := a.answer(c)
		if err != nil {
			return nil, &frame.Error{Kind: frame.KindRuntime, Name: "Error", Message: err.Error()}
		}
		return value, nil
	}
}

func (a answers) answer(c *journal.Call) (json.RawMessage, error) {
	var args struct{ Path, Zone string }
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	switch frame.Kind(c.Kind) {
	case frame.FS:
		text, err := os.ReadFile(a.files[strings.TrimPrefix(args.Path, "/workspace/")])
		if err != nil {
			return nil, fmt.Errorf("no file %s", args.Path)
		}
		return json.Marshal(map[string]string{"text": string(text)})
	case frame.Intl:
		canonical, transitions, err := guest.Zone(args.Zone)
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
	}
	return nil, fmt.Errorf("tests make no call %s %s", c.Kind, c.Name)
}
