// Every built-in that the guest runtime could use is replaced.
// wants: value 7
// call: read {"n":7}
Object.prototype.then = function (f) { f(666) }
Object.prototype.toJSON = () => 666
for (const key of ['run', 'id', 'value', 'error', 't', 'now', 'taken', 'kind', 'name', 'args', 'get', 'set', 'writable']) {
  Object.defineProperty(Object.prototype, key, { __proto__: null, get() { return 'forged' }, set() {}, configurable: true })
}
for (const C of [Array, String, Map, Set, WeakMap, Promise, RegExp, Number, Function, Date, ArrayBuffer, Uint8Array]) {
  for (const key of Object.getOwnPropertyNames(C.prototype)) {
    if (key !== 'constructor') try { C.prototype[key] = () => 666 } catch {}
  }
}
Array.prototype[0] = 666
Array.prototype[Symbol.iterator] = function* () { yield 666 }
JSON.stringify = () => '{"t":"done","value":666}'
JSON.parse = () => 666
Reflect.apply = Reflect.construct = Object.keys = Object.defineProperty = () => 666
Promise.resolve = Promise.all = () => 666
delete Object.prototype.then
delete Object.prototype.toJSON
globalThis.leak = 1
const answer = await tools.up.read({ n: 7 })
return answer.n
