// Something that acts after the run has ended: timers, rejections, collectors, intervals.
// wants: value 1
new FinalizationRegistry(() => { globalThis.leak = 1 }).register({}, 1)
globalThis.ref = new WeakRef({})
setInterval(() => { globalThis.leak = 1 }, 1).unref()
setTimeout(() => console.log('late'), 1e6).unref()
const loop = async () => { for (;;) { await utils.sleep(1000); globalThis.leak = 1 } }
queueMicrotask(() => { globalThis.leak = 3 })
return 1
