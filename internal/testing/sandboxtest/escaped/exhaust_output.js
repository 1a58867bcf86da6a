// Bytes without a line, on the standard output and the standard error.
// wants: error output_limit
const { writeSync } = outer.require('fs')
const text = 'x'.repeat(1 << 20)
for (let i = 0; i < 8; i++) { try { writeSync(2, text) } catch {} }
for (;;) { try { writeSync(1, text) } catch {} }
