// The standard error without end, beside which no frame comes.
// limit: compute
// wants: error timeout
const text = 'x'.repeat(1 << 16) + '\n'
for (;;) { try { outer.require('fs').writeSync(2, text) } catch {} }
