// Frames of other runs without end, which nobody counts.
// limit: compute
// wants: error timeout
const text = (JSON.stringify({ t: 'log', run: '$RUN', level: 'log', text: 'x' }) + '\n').repeat(100)
for (;;) { try { outer.require('fs').writeSync(1, text) } catch {} }
