package guest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/frame"
)

// exchange runs a program, answers each call with the error that answer returns, and returns the calls and the done frame.
func exchange(t *testing.T, r runner, f *frame.Frame, answer func(*frame.Frame) *frame.Error) (calls []*frame.Frame, done *frame.Frame) {
	t.Helper()
	for {
		if err := r.send(f); err != nil {
			t.Fatal(err)
		}
		for f = nil; f == nil; {
			got, err := r.receive()
			if err != nil {
				t.Fatal(err)
			}
			switch got.T {
			case frame.Call:
				calls = append(calls, got)
				f = &frame.Frame{T: frame.Answer, Run: got.Run, ID: got.ID, Sync: got.Sync, Value: json.RawMessage("null"), Error: answer(got)}
			case frame.Done:
				if err := r.reset(); err != nil {
					t.Fatal(err)
				}
				return calls, got
			}
		}
	}
}

// TestLongNames calls tools with names at and above the maximum length. If a runner sent a longer name, the host would treat it as broken.
func TestLongNames(t *testing.T) {
	const program = `
const attempt = async (call) => { try { await call(); return 'sent'; } catch (e) { return e.name + ': ' + e.message; } };
const out = [];
for (const name of ['a'.repeat(1024), '\u00fc'.repeat(512), '\u20ac'.repeat(341), 'a'.repeat(1025), '\u00fc'.repeat(513), '\ud800'.repeat(342)]) {
  out.push([
    await attempt(() => callMCPTool(name)), await attempt(() => callMCPTool.raw(name)),
    await attempt(() => tools.crm[name]()), await attempt(() => tools[name].search()),
  ]);
}
return out`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		calls, done := exchange(t, open(t), start(wrap(program)), func(*frame.Frame) *frame.Error { return nil })
		var got [][]string
		if err := json.Unmarshal(done.Value, &got); err != nil {
			t.Fatal(err, done.Error)
		}
		for i, outcomes := range got {
			for k, outcome := range outcomes {
				switch refused := strings.HasPrefix(outcome, "TypeError: the name of a "); {
				case i < 3 && outcome != "sent":
					t.Errorf("name %d, way %d: %.200q, want it sent", i, k, outcome)
				case i >= 3 && (!refused || len(outcome) > 300):
					t.Errorf("name %d, way %d: %.200q, want a short TypeError", i, k, outcome)
				}
			}
		}
		for _, c := range calls {
			if len(c.Name) > 1024 {
				t.Errorf("a call's name has %d bytes", len(c.Name))
			}
		}
	})
}

// TestLargeArguments makes synchronous calls with arguments that are larger than the host accepts.
func TestLargeArguments(t *testing.T) {
	const program = `
const long = 'x'.repeat(200_000);
const out = [];
for (const call of [() => require(long), () => require('./' + long), () => new Intl.DateTimeFormat('en', { timeZone: 'A/' + long })]) {
  try { call(); out.push('sent'); } catch (e) { out.push(e.name); }
}
return out`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		f := start(wrap(program))
		f.Limits.MaxValue = 100_000
		calls, done := exchange(t, open(t), f, func(*frame.Frame) *frame.Error { return nil })
		if got := string(done.Value); got != `["RangeError","RangeError","RangeError"]` || len(calls) > 0 {
			t.Errorf("got %s, %+v and %d calls", got, done.Error, len(calls))
		}
	})
}

// TestErrorsAreBounded throws errors that are too large to be reported as they are.
func TestErrorsAreBounded(t *testing.T) {
	for what, program := range map[string]string{
		"text":       `throw 'x'.repeat(5e6)`,
		"characters": `throw 'x\u{1f600}'.repeat(1e5)`,
		"object":     `throw Object.fromEntries(Array.from({ length: 1e5 }, (_, i) => ['key' + i, i]))`,
		"error": `const e = new Error('\u20ac'.repeat(1e6)); e.name = '\u00fc'.repeat(1e6);
			Object.defineProperty(e, 'stack', { value: '    at f (program.js:1:1)\n'.repeat(1e5) }); throw e`,
		"causes": `throw new AggregateError([new Error('a'.repeat(1e6))], 'b', { cause: new Error('c'.repeat(1e6)) })`,
		"data":   `await callMCPTool('x')`,
	} {
		t.Run(what, func(t *testing.T) {
			engines(t, func(t *testing.T, open func(*testing.T) runner) {
				f := start(wrap(program))
				f.Limits.MaxValue = 100_000
				_, done := exchange(t, open(t), f, func(*frame.Frame) *frame.Error {
					data := json.RawMessage(`"` + strings.Repeat("d", 200_000) + `"`)
					return &frame.Error{Kind: "tool", Name: "ToolError", Message: "m", Tool: "x", Data: data}
				})
				e := done.Error
				if e == nil {
					t.Fatalf("it returned %s", done.Value)
				}
				for part, size := range map[string][3]int{
					"name": {len(e.Name), 1, 256}, "message": {len(e.Message), 1, 16 << 10},
					"stack": {len(e.Stack), 0, 64 << 10}, "data": {len(e.Data), 0, f.Limits.MaxValue},
				} {
					if size[0] < size[1] || size[0] > size[2] {
						t.Errorf("the %s has %d bytes, want %d to %d", part, size[0], size[1], size[2])
					}
				}
				if what != "data" && (len(e.Message) < 16<<10-60 || !strings.HasSuffix(e.Message, " characters more)")) {
					t.Errorf("the message has %d bytes and ends with %q", len(e.Message), e.Message[max(0, len(e.Message)-40):])
				}
				if strings.ContainsRune(e.Message, utf8.RuneError) {
					t.Error("the message is cut inside a character")
				}
			})
		})
	}
}

// TestErrorsThatThrow reports errors whose properties throw when they are read.
func TestErrorsThatThrow(t *testing.T) {
	const program = `const e = new Error('mine'); e.errors = %s; throw e`
	for _, errors := range []string{
		`{ get length() { throw e; } }`, `{ length: 1, get 0() { throw e; } }`, `new Proxy([], { get() { throw e; } })`,
		`{ length: { valueOf() { throw e; } } }`,
	} {
		t.Run(errors, func(t *testing.T) {
			engines(t, func(t *testing.T, open func(*testing.T) runner) {
				_, done := run(t, open(t), start(wrap(strings.Replace(program, "%s", errors, 1))))
				if done.Error == nil || !strings.HasPrefix(done.Error.Message, "mine") {
					t.Errorf("got %+v", done.Error)
				}
			})
		})
	}
}

// TestPoisonedDescriptors defines the properties of descriptors on Object.prototype. A descriptor that inherited them would have a different meaning or be
// invalid.
func TestPoisonedDescriptors(t *testing.T) {
	const program = `
const calls = {
  clone: () => structuredClone({ a: [1, { b: 2 }] }),
  error: () => { const e = structuredClone(new RangeError('x', { cause: 1 })); return [e.name, e.message, e.cause]; },
  exception: () => { const e = new DOMException('m', 'AbortError'); return [e.name, e.code, e.message]; },
  event: () => { let n = 0; const t = new EventTarget(); t.addEventListener('x', () => n++); t.dispatchEvent(new Event('x')); return n; },
  abort: () => { const c = new AbortController(); c.abort(); return [c.signal.aborted, c.signal.reason.name]; },
  number: () => (1234.5).toLocaleString('de'),
  date: () => new Date(0).toLocaleDateString('en-US'),
  segments: () => [...new Intl.Segmenter('en').segment('ab')].map((s) => s.segment),
  url: () => { const u = new URL('http://a/?b=1'); u.searchParams.set('c', '2'); return u.href; },
  buffer: () => Buffer.from('hi').toString('hex'),
  tool: () => tools.crm.search.name,
  keys: () => Object.keys(utils),
  map: () => new Proxy({ a: 1 }, { __proto__: null }).a,
  revocable: () => Proxy.revocable({ a: 2 }, { __proto__: null }).proxy.a,
  reference: () => new WeakRef(calls).deref() === calls,
  timer: () => { const t = setTimeout(() => {}, 1); clearTimeout(t); return typeof t; },
  assert: () => { try { require('assert').equal(1, 2); } catch (e) { return [e.code, e.actual, e.expected]; } },
};
const all = () => JSON.stringify(Object.keys(calls).map((name) => { try { return [name, calls[name]()]; } catch (e) { return [name, String(e)]; } }));
const before = all();
const properties = ['get', 'set', 'value', 'writable', 'enumerable', 'configurable'];
const out = [];
for (const property of properties) {
  for (const poison of [() => 'poison', false, undefined]) {
    Object.prototype[property] = poison;
    const after = all();
    delete Object.prototype[property];
    if (after !== before) out.push([property, String(poison), before, after]);
  }
}
Object.prototype.get = () => 'poison';
try { await callMCPTool('fails'); } catch (e) {
  const { name, message, tool, kind } = e;
  delete Object.prototype.get;
  if (name !== 'ToolError' || message !== 'm' || tool !== 'x' || kind !== 'tool') out.push([name, message, tool, kind]);
}
return out`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		f := start(wrap(program))
		f.Program.Modules = []frame.Module{{ID: "assert", Kind: "builtin", Server: "assert"}}
		_, done := exchange(t, open(t), f, func(c *frame.Frame) *frame.Error {
			if c.Kind != frame.Tool {
				return nil
			}
			return &frame.Error{Kind: "tool", Name: "ToolError", Message: "m", Tool: "x"}
		})
		if done.Error != nil || string(done.Value) != "[]" {
			t.Errorf("what changed: %s, %+v", done.Value, done.Error)
		}
	})
}
