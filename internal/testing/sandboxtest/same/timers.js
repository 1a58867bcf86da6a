// The order of timers, promises and microtasks.
const order = []
const last = new Promise((done) => setTimeout(() => { order.push('t3'); done() }, 3))
setTimeout(() => order.push('t1'), 1)
queueMicrotask(() => order.push('micro'))
Promise.resolve().then(() => order.push('then')).then(() => order.push('then2'))
await utils.sleep(2)
order.push('slept')
await last
return order
