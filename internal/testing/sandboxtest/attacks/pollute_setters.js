// Setters on the prototypes see what the guest runtime stores.
// wants: value 0
// call: read {"a":1}
let seen = 0
const look = (v) => { if (typeof v === 'function' || typeof v === 'string' && v.includes('"t"')) seen++ } // not the program's own values
for (let i = 0; i < 100; i++) Object.defineProperty(Array.prototype, i, { set: look, get() { return 666 }, configurable: true })
for (const key of ['answered', 'kind', 'timer', 'id', 'text', 'resolve', 'reject', 'listed', 'constructor', 'next', 'done', 'cause', 'message', 'stack', 'code']) {
  const old = Object.getOwnPropertyDescriptor(Object.prototype, key)
  Object.defineProperty(Object.prototype, key, { __proto__: null, set: look, get() { return old?.value }, configurable: true })
}
await tools.up.read({ a: 1 })
await new Promise((done) => setTimeout(done, 1))
try { await fs.readFile('/workspace/none') } catch {}
return seen
