// Calls that are no work of the guest runtime: kinds that there are not, and a tool that the host counts like any other.
// wants: value 1
// call: send {"own":1}
// made: 1
const say = (f) => outer.require('fs').writeSync(1, JSON.stringify({ t: 'call', run: outer.run, ...f }) + '\n')
say({ id: 1, kind: 'tool', name: 'up__send', args: { input: { own: 1 } } })
say({ id: 2, kind: 'none', name: 'x', args: {} })
say({ id: 3, kind: 'fs', name: 'readFile', args: { path: '$FILE' } })
say({ id: 4, kind: 'fs', name: 'readFile', args: { path: '/workspace/../../ann/s/of.txt' } })
say({ id: 5, kind: 'module', name: 'load', args: { specifier: '$FILE', from: '/' } })
say({ id: 6, kind: 'timer', name: 'sleep', args: { ms: 10 } })
say({ t: 'idle', taken: 0 })
const until = outer.require('fs')
const seen = []
const chunk = outer.Buffer.alloc(1 << 16)
for (let text = ''; (text.match(/"t":"answer"/g) ?? []).length < 6;) { try { text += chunk.toString('utf8', 0, until.readSync(0, chunk)) } catch {} }
say({ t: 'done', value: 1 })
for (;;) {}
