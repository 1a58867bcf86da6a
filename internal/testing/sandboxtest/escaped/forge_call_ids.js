// A call whose number is not the next.
// wants: error crash
outer.require('fs').writeSync(1, JSON.stringify({ t: 'call', run: outer.run, id: 7, kind: 'tool', name: 'up__send', args: { input: {} } }) + '\n')
for (;;) {}
