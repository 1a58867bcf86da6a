// The same by a thread, of a program that says that it is idle.
// limit: compute
// wants: error timeout|crash
const { writeSync } = outer.require('fs')
writeSync(1, JSON.stringify({ t: 'call', run: outer.run, id: 1, kind: 'timer', name: 'sleep', args: { ms: 1e6 } }) + '\n')
writeSync(1, JSON.stringify({ t: 'idle', run: outer.run, taken: 0 }) + '\n')
new (outer.require('worker_threads').Worker)("const fs = require('node:fs'); for (;;) { try { fs.writeSync(2, 'x'.repeat(65536)) } catch {} }", { eval: true })
for (;;) {}
