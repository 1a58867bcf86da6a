// A function of the host runs out of stack and throws an error of its own realm, whose constructor compiles code there.
// log: *
// wants: value 0
let foreign = 0
const look = (e) => {
  if (e === null || typeof e !== 'object') return
  if (!(e instanceof Object)) foreign++
  try { if (e.constructor.constructor('return typeof process')() !== 'undefined') foreign += 1000 } catch {}
}
for (const f of [() => console.log('x'), () => atob('eA=='), () => btoa('x'), () => eval('1'), () => new Function('return 1')(), () => crypto.getRandomValues(new Uint8Array(8)),
  () => { const b = new ArrayBuffer(8); structuredClone(0, { transfer: [b] }) }]) {
  const deeper = (n) => {
    try { f() } catch (e) { look(e) }
    try { if (n < 1e5) deeper(n + 1) } catch (e) { look(e); try { f() } catch (e2) { look(e2) } }
  }
  let left = 300
  const dive = () => {
    try { dive() } catch (e) { look(e) }
    if (left-- > 0) try { f() } catch (e) { look(e) }
  }
  dive()
}
return foreign
