// The error of a refused import belongs to the realm of the runner: its prototypes are changed for the runner's own code.
// wants: value 42
// call: read {"n":42}
try {
  await new Function("return import('node:fs')")()
} catch (e) {
  let p = e
  while ((p = Object.getPrototypeOf(p))) {
    for (const key of ['then', 'toString', 'toJSON', 'startsWith', 'length', 'get']) {
      if (p === Object.prototype) continue
      try { p[key] = () => { throw 1 } } catch {}
      try { Object.defineProperty(p, key, { get() { throw 1 } }) } catch {}
    }
    try { p.constructor.prepareStackTrace = () => { throw 1 } } catch {}
    try { p.constructor.stackTraceLimit = 0 } catch {}
  }
}
return (await tools.up.read({ n: 42 })).n
