// The run's own end, forged: the program fools itself.
// wants: value "forged"
outer.require('fs').writeSync(1, JSON.stringify({ t: 'done', run: outer.run, value: 'forged' }) + '\n')
for (;;) {}
