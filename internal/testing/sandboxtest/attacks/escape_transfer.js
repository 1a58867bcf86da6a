// Buffers go to the realm of the runner to be detached; what the program put on them, but for its own copy's class, is not asked.
// wants: value []
const got = []
const spy = (where) => ({ get() { got.push(where); return undefined } })
const foreign = (e) => { if (!(e instanceof Object)) got.push('foreign error'); return e }
for (const key of ['byteLength', 'slice', 'transfer', Symbol.toStringTag, Symbol.toPrimitive, 'then', 'toJSON']) {
  const b = new ArrayBuffer(8)
  Object.defineProperty(b, key, spy(String(key)))
  structuredClone(0, { transfer: [b] })
}
class Mine extends ArrayBuffer { static get [Symbol.species]() { return ArrayBuffer } }
structuredClone(0, { transfer: [new Mine(8)] })
Object.defineProperty(ArrayBuffer.prototype, 'transfer', { value: spy('patched').get })
structuredClone(0, { transfer: [new ArrayBuffer(8)] })
for (const odd of [new Proxy(new ArrayBuffer(1), {}), Object.create(ArrayBuffer.prototype), new Uint8Array(1), { __proto__: null }, () => 1, 5]) {
  try { structuredClone(0, { transfer: [odd] }); got.push('taken') } catch (e) { foreign(e) }
}
const again = new ArrayBuffer(8)
structuredClone(0, { transfer: [again] })
try { structuredClone(0, { transfer: [again] }) } catch (e) { foreign(e) }
return got
