// An import expression that the compiler does not see asks the engine for modules of Node.js.
// wants: value ["undefined","undefined","undefined","undefined"]
const all = []
for (const name of ['node:fs', 'fs', 'node:child_process', 'node:vm']) {
  try {
    const m = await new Function('name', 'return import(name)')(name)
    all.push(typeof (m.readFileSync ?? m.spawn ?? m.runInThisContext))
  } catch (e) {
    let got = 'undefined'
    try { got = e.constructor.constructor('return typeof process')() } catch {}
    all.push(got)
  }
}
return all
