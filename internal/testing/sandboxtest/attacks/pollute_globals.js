// The globals of the program are replaced, frozen and deleted.
// wants: value 4
// call: read {"n":4}
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (['Object', 'tools', 'globalThis', 'undefined', 'NaN', 'Infinity'].includes(name)) continue
  try { globalThis[name] = () => 666 } catch {}
  try { delete globalThis[name] } catch {}
}
Object.setPrototypeOf(globalThis, null)
Object.freeze(Object.prototype)
Object.freeze(globalThis)
return (await tools.up.read({ n: 4 })).n
