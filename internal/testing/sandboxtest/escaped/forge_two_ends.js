// Two ends, and calls and lines after them.
// wants: value 1
const say = (f) => outer.require('fs').writeSync(1, JSON.stringify({ run: outer.run, ...f }) + '\n')
say({ t: 'done', value: 1 })
say({ t: 'done', value: 2 })
say({ t: 'log', level: 'log', text: 'late' })
say({ t: 'call', id: 1, kind: 'tool', name: 'up__send', args: { input: {} } })
for (;;) {}
