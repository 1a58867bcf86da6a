// Some object that a program can reach belongs to the realm of the runner, where there is a process.
// wants: value []
// call: read {"a":[{}]}
// made: 2
const foreign = []
const seen = new Set()
const queue = [[globalThis, 'globalThis']]
const later = []
const visit = (value, path) => {
  if (value === null || typeof value !== 'object' && typeof value !== 'function' || seen.has(value)) return
  seen.add(value)
  queue.push([value, path])
}
const proto = (value) => { try { return Object.getPrototypeOf(value) } catch { return null } }
const settle = async () => {
  while (queue.length > 0) {
    const [value, path] = queue.pop()
    let root = value
    for (let next = proto(root), i = 0; next !== null && i < 50; next = proto(root), i++) root = next
    if (root !== Object.prototype && typeof root === 'object' && typeof root.constructor === 'function' && root.constructor !== Object && root.constructor.name === 'Object') foreign.push(path)
    try {
      const got = value.constructor.constructor('return typeof process')()
      if (typeof got === 'string' && got !== 'undefined') foreign.push(path + ' (code)')
    } catch {}
    visit(proto(value), path + '.__proto__')
    let keys = []
    try { keys = Reflect.ownKeys(value) } catch {}
    for (const key of keys.slice(0, 1000)) {
      const d = Reflect.getOwnPropertyDescriptor(value, key)
      if (d === undefined) continue
      const at = path + '.' + String(key)
      visit(d.get, at + '(get)')
      visit(d.set, at + '(set)')
      visit(d.value, at)
      if (d.get) { try { visit(value[key], at) } catch (e) { visit(e, at + '(thrown)') } }
    }
  }
}
for (const f of [
  () => callMCPTool('none__none', {}), () => callMCPTool(1), () => fs.readFile('/none'), () => require('none'), () => utils.sleep(0), () => structuredClone(() => {}),
  () => new URL('x'), () => atob('*'), () => btoa('\u{1f600}'), () => JSON.parse('{'), () => null.x, () => new Array(-1), () => eval('('), () => decodeURI('%'),
  () => 'x'.repeat(-1), () => crypto.getRandomValues(1), () => list_mcp_tools(), () => search_tools('x'), () => new Proxy({}, null), () => new Intl.DateTimeFormat('x-'),
  () => tools.up.read({ a: [{}] }), () => Promise.any([Promise.reject(1)]), () => new TextDecoder('x'), () => new AbortController().signal.throwIfAborted(),
]) {
  try { visit(await f(), String(f)) } catch (e) { visit(e, String(f) + '(thrown)') }
}
(function () { visit(arguments, 'arguments') })()
await settle()
return foreign
