// Getters and traps run inside of the guest runtime, where they throw, loop and change what is being read.
// wants: value [1,"trap"]
// call: read {"a":1,"b":2}
// log: *
const input = { get a() { Object.defineProperty(this, 'b', { value: 2, enumerable: true, configurable: true }); return 1 } }
const answer = await tools.up.read(input)
const trap = new Proxy(function () {}, {
  get(_t, key) { if (key === 'toJSON' || key === Symbol.toPrimitive) throw new Error('trap'); return trap },
  ownKeys() { throw new Error('trap') }, getPrototypeOf() { throw new Error('trap') }, getOwnPropertyDescriptor() { throw new Error('trap') },
  has() { throw new Error('trap') }, apply() { return trap }, construct() { return trap },
})
console.log(trap, [trap], { trap })
const caught = await tools.up.read({ trap }).then(() => 'sent', (e) => e.message)
return [answer.a, /trap/.test(caught) ? 'trap' : caught]
