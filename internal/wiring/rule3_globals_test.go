package wiring_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// globals are the names that programs see in every engine.
var globals = strings.Fields(`AbortController AbortSignal AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Blob Boolean Buffer
CustomEvent DOMException DataView Date DeniedError DisposableStack Error EvalError Event EventTarget FSError File FinalizationRegistry
Float16Array Float32Array Float64Array FormData Function Headers InDoubtError Infinity Int16Array Int32Array Int8Array Intl Iterator JSON
LimitError Map Math NaN NeedsLoginError Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Request Response SessionLostError Set String
SuppressedError Symbol SyntaxError TextDecoder TextEncoder ToolError TypeError URIError URL URLSearchParams Uint16Array Uint32Array
Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet atob btoa callMCPTool clearInterval clearTimeout console crypto decodeURI
decodeURIComponent encodeURI encodeURIComponent env escape eval fetch fs get_mcp_prompt get_mcp_tool_details get_server_index get_tool_details
get_virtual_library globalThis input introspect_servers isFinite isNaN list_mcp_prompts list_mcp_resource_templates list_mcp_resources list_mcp_tools list_server_functions
parseFloat parseInt performance pii queueMicrotask read_mcp_resource require search_mcp_tools search_tools setInterval setTimeout
structuredClone tools undefined unescape utils`)

// Rule 3, globals: exactly the allowed globals exist, and none reveals the machine or the garbage collector.
func TestRuleGlobals(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	got := decoded[struct {
		Names, Enumerable, Symbols []string
		Absent, Facts              map[string]bool
	}](t, f.exec(code(`
const types = {}
for (const name of ['WebAssembly', 'Atomics', 'SharedArrayBuffer', 'MessageChannel', 'setImmediate', 'process', 'gc', 'std', 'os', 'Worker',
  'global', 'window', 'Deno', 'scriptArgs', 'print', 'navigator', 'module', 'exports', '__harness']) types[name] = typeof globalThis[name] === 'undefined'
types['crypto.subtle.encrypt'] = await (async () => crypto.subtle.encrypt())().then(() => false, () => true)
types['Error.prepareStackTrace'] = Error.prepareStackTrace === undefined
let finalized = 0
const registry = new FinalizationRegistry(() => finalized++)
let ref
{ const target = { big: new Array(1000).fill(7) }; ref = new WeakRef(target); registry.register({}, 1) }
for (let i = 0; i < 300; i++) { new Array(10000).fill(i) }
await utils.sleep(1)
const facts = {
  held: ref.deref().big.length === 1000, finalized: finalized === 0,
  zone: new Date(2026, 5, 1).getTimezoneOffset() === 0 && Intl.DateTimeFormat().resolvedOptions().timeZone === 'UTC',
  locale: Intl.DateTimeFormat().resolvedOptions().locale === 'en-US' && (1234.5).toLocaleString() === '1,234.5',
  parses: new Date('2026-06-01T00:00:00').getTime() === Date.UTC(2026, 5, 1),
}
return {
  names: Object.getOwnPropertyNames(globalThis).sort(), enumerable: Object.keys(globalThis), symbols: Object.getOwnPropertySymbols(globalThis).map(String),
  absent: types, facts,
}`)))
	want := slices.Sorted(slices.Values(globals))
	if os.Getenv(tierVar) != "" {
		late := strings.Fields("AsyncDisposableStack DisposableStack Float16Array Iterator SuppressedError") // Node.js has them since versions 22 and 24
		want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(late, name) && !slices.Contains(got.Names, name) })
	}
	if d := cmp.Diff(want, got.Names); d != "" {
		t.Errorf("globals (-want +got):\n%s", d)
	}
	if len(got.Enumerable) != 0 {
		t.Errorf("enumerable: %v", got.Enumerable)
	}
	if !slices.Equal(got.Symbols, []string{"Symbol(Symbol.toStringTag)"}) && len(got.Symbols) != 0 {
		t.Errorf("symbols: %v", got.Symbols)
	}
	for name, absent := range got.Absent {
		if name == "Error.prepareStackTrace" && os.Getenv(tierVar) != "" {
			continue // V8 reads this property when it writes a stack. The guest runtime has set it.
		}
		if !absent {
			t.Errorf("there is %s", name)
		}
	}
	for name, is := range got.Facts {
		if !is {
			t.Errorf("not so: %s", name)
		}
	}
}
