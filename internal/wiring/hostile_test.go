package wiring_test

// hostile is a hostile program with the only allowed result.
type hostile struct {
	name string
	code string
	kind string // allowed error.kind; empty for a program that must succeed
	want string // output of a program that must succeed
}

// hostilePrograms run with hostileLimits. Each must end soon after it reaches a limit, and may harm only itself.
var hostilePrograms = []hostile{
	// Loops.
	{"loop", `while (true) {}`, "timeout", ""},
	{"loop in finally", `for (;;) { try { while (true) {} } catch {} finally { continue } }`, "timeout", ""},
	{"loop in catch", `try { throw 1 } catch { while (true) {} }`, "timeout", ""},
	{"busy wait on the clock", `const t = Date.now(); while (Date.now() < t + 1e9) {}`, "timeout", ""},
	{"microtask loop", `const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})`, "timeout", ""},
	{"await loop", `for (;;) await null`, "timeout", ""},
	{"async generator loop", `for await (const x of (async function* () { for (;;) yield 1 })()) {}`, "timeout", ""},
	{"catastrophic regex", `/^(a+)+$/.test('a'.repeat(40) + '!')`, "timeout", ""},
	{"regex with a back-reference", `/^(a*)*\1b$/.test('a'.repeat(40))`, "timeout", ""},
	{"native loop", `return new Array(1e9) + ''`, "timeout", ""},
	{"native loop in a timer", `setTimeout(() => new Array(1e9) + '', 1); await utils.sleep(60000)`, "timeout", ""},
	{"loop in toJSON", `return { toJSON() { while (true) {} } }`, "timeout", ""},
	{"loop in a getter of the error", `throw { get message() { while (true) {} } }`, "runtime", ""},
	{"loop in toString of the error", `throw { toString() { while (true) {} } }`, "runtime", ""},
	{"endless keys of a proxy", `return new Proxy({}, { ownKeys() { while (true) {} } })`, "timeout", ""},
	{"catching out of memory for ever", `const a = []; for (;;) { try { a.push(new Uint8Array(1 << 20)) } catch {} }`, "timeout", ""},
	// Memory.
	{"arrays", `const a = []; for (;;) a.push(new Array(1000).fill(1))`, "memory", ""},
	{"typed arrays", `const a = []; for (;;) a.push(new Uint8Array(1 << 20))`, "memory", ""},
	{"distinct strings", `const a = []; for (let i = 0; ; i++) a.push(('s' + i).repeat(1000))`, "memory", ""},
	{"one giant string", `const a = []; for (let i = 0; ; i++) a.push('x'.repeat(1 << 24) + i)`, "memory", ""},
	{"spread of an endless generator", `return [...(function* () { for (;;) yield 1 })()]`, "memory", ""},
	{"closures", `let f = () => 0; const a = []; for (;;) { const g = f; a.push(f = () => g) }`, "memory", ""},
	{"map", `const m = new Map(); for (let i = 0; ; i++) m.set('key' + i, i)`, "memory", ""},
	{"promises", `const a = []; for (;;) a.push(new Promise(() => {}))`, "memory", ""},
	// Errors of the engine.
	{"recursion", `const f = () => f() + 1; return f()`, "runtime", ""},
	{"recursion through toString", `const o = { toString() { return '' + o } }; return '' + o`, "runtime", ""},
	{"deep JSON", `return JSON.parse('['.repeat(2e6))`, "runtime", ""},
	{"deep eval", `return eval('('.repeat(1e6))`, "runtime", ""},
	{"BigInt tower", `let x = 2n; for (;;) x = x ** x`, "runtime", ""},
	{"doubled string", `let s = 'x'; for (;;) s += s + Math.random()`, "runtime", ""},
	{"too long a string", `return 'x'.repeat(2 ** 30)`, "runtime", ""},
	{"null thrown", `throw null`, "runtime", ""},
	{"cycle in the result", `const a = {}; a.a = a; return a`, "runtime", ""},
	{"no shared memory", `return new SharedArrayBuffer(8)`, "runtime", ""},
	{"syntax", `return 1 +`, "syntax", ""},
	// Output.
	{"log flood", `for (;;) console.log('x'.repeat(1000))`, "output_limit", ""},
	{"empty log flood", `for (;;) console.log()`, "output_limit", ""},
	{"one giant line", `console.log('x'.repeat(4 << 20))`, "output_limit", ""},
	{"giant result", `return 'x'.repeat(4 << 20)`, "output_limit", ""},
	{"result above sandbox.maxValue", `return 'x'.repeat(9 << 20)`, "output_limit", ""},
	// Calls.
	{"tool call flood", `for (;;) await callMCPTool('database__query', { query: 'SELECT 1' })`, "call_limit", ""},
	{"host call flood", `for (;;) await list_mcp_tools()`, "call_limit", ""},
	{"synchronous call flood", `for (let i = 0; ; i++) { try { require('/skills/none' + i) } catch {} }`, "call_limit", ""},
	{"timer flood", `for (;;) await utils.sleep(0)`, "call_limit", ""},
	{"unawaited timers", `for (;;) utils.sleep(1)`, "call_limit", ""},
	{"unawaited calls", `for (let i = 0; ; i++) callMCPTool('database__query', { query: 'SELECT 1 -- ' + 'x'.repeat(2000) + i })`, "memory", ""},
	{"never settles", `await new Promise(() => {})`, "never_settles", ""},
	{"sleeps too long", `await utils.sleep(1e9)`, "timeout", ""},
	{"interval for ever", `setInterval(() => {}, 10); await new Promise(() => {})`, "timeout", ""},
	{"unhandled rejection", `Promise.reject(new Error('nobody listens')); return 1`, "runtime", ""},
	// Tampering: a program may deceive itself, but never the host.
	{
		"prototype pollution", `
		Object.prototype.then = function (f) { f(666) }
		Object.prototype.toJSON = () => 666
		Object.defineProperty(Object.prototype, 'run', { get() { return 'forged' }, set() {} })
		Array.prototype.push = Array.prototype.map = Array.prototype.join = () => 666
		Map.prototype.get = Map.prototype.set = () => 666
		Promise.prototype.then = () => 666
		JSON.stringify = () => '{"t":"done","value":666}'
		JSON.parse = () => 666
		delete Object.prototype.then; delete Object.prototype.toJSON
		return 7`, "", "7",
	},
	{"forged frame in the log", "console.log('\\n{\"t\":\"done\",\"run\":\"x\",\"value\":666}\\n'); return 7", "", "7"},
	{"forged kind", `throw Object.assign(new Error('x'), { kind: 'timeout', name: 'ToolError' })`, "runtime", ""},
	{
		"internals", `
		const names = Object.getOwnPropertyNames(globalThis)
		const inner = names.filter((n) => /harness|deliver|settle|finish|__host|sendSync/i.test(n))
		return inner.length`, "", "0",
	},
	{
		"internals through the stack", `
		let seen = 0
		Error.prepareStackTrace = (e, frames) => { seen += Array.isArray(frames) ? frames.length : 0; return 'x' }
		try { await callMCPTool('no__such') } catch (e) { void e.stack }
		return typeof arguments === 'undefined' || Array.from(arguments).every((a) => typeof a !== 'string') ? 7 : 0`, "", "7",
	},
	{"the constructor's way out", `return (function () {}).constructor('return typeof process + typeof require("fs").readFileSync')()`, "", `"undefinedfunction"`},
	{"engine constants", `return [new Date(0).getTimezoneOffset(), typeof WebAssembly, typeof Atomics]`, "", `[0,"undefined","undefined"]`},
}
