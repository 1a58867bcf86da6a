// An end with an error of the host's kinds, and texts that are too long.
// wants: error runtime
outer.require('fs').writeSync(1, JSON.stringify({ t: 'done', run: outer.run, refused: false, error: { kind: 'cancelled', name: 'n'.repeat(1000), message: 'm'.repeat(100000), stack: 's'.repeat(100000), tool: 'up__send' } }) + '\n')
for (;;) {}
