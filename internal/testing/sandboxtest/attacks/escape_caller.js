// The caller of a sloppy function is the function of the guest runtime that called it, and its arguments are there too.
// wants: value []
// log: *
// call: read {"a":1}
const got = []
const spy = new Function('got', 'where', 'value', 'return function spy() { try { for (let c = spy.caller, i = 0; c && i < 20; c = c.caller, i++) got.push(where + ": " + String(c)) } catch {} try { if (spy.arguments && spy.arguments.callee !== spy) got.push(where) } catch {} return value }')
const s = (where, value = 1) => spy(got, where, value)
await callMCPTool('up__read', { toJSON: s('toJSON', { a: 1 }) })
await new Promise((done) => setTimeout(() => { s('timer')(); done() }, 1))
setTimeout(s('bare timer'), 1)
console.log({ [Symbol.for('nodejs.util.inspect.custom')]: s('inspect') })
Object.defineProperty(globalThis, 'x1', { get: s('getter') })
new Proxy({}, { ownKeys: s('trap') })
try { JSON.stringify({ toJSON: s('stringify') }) } catch {}
await Promise.resolve(1).then(s('then'))
return got.filter((g) => !/spy|s\(["']/.test(g)) // those are its own functions
