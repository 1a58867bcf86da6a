// A program that says that it is idle, and computes.
// limit: compute
// wants: error timeout
outer.require('fs').writeSync(1, JSON.stringify({ t: 'call', run: outer.run, id: 1, kind: 'timer', name: 'sleep', args: { ms: 1e6 } }) + '\n')
outer.require('fs').writeSync(1, JSON.stringify({ t: 'idle', run: outer.run, taken: 0 }) + '\n')
for (;;) {}
