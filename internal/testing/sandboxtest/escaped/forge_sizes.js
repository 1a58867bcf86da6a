// Arguments and names that are larger than the guest runtime sends.
// wants: error crash
outer.require('fs').writeSync(1, JSON.stringify({ t: 'call', run: outer.run, id: 1, kind: 'tool', name: 'n'.repeat(5000), args: {} }) + '\n')
for (;;) {}
