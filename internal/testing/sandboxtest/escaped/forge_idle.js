// Being idle again and again, without having taken an answer.
// wants: error crash
for (;;) outer.require('fs').writeSync(1, JSON.stringify({ t: 'idle', run: outer.run, taken: 0 }) + '\n')
