// What the runner does around the program's own asynchronous code: rejections, timers and promises that are not ours.
// wants: value 42
const spy = (x) => { try { if (typeof x.constructor.constructor('return process')() === 'object') globalThis.won = 1 } catch {} }
const reason = new Proxy({}, { get(_, key) { if (key !== 'then') throw new Error(String(key)); return undefined } })
const p = Promise.reject(reason)
await new Promise((done) => setTimeout(done, 2))
p.catch(spy)
for (const event of ['unhandledRejection', 'uncaughtException', 'exit']) globalThis['on' + event] = spy
Promise.prototype.then = function (...args) { spy(this); return Reflect.apply(then, this, args) }
const then = Object.getOwnPropertyDescriptor(Promise, 'prototype').value.constructor.prototype.catch
return 42
