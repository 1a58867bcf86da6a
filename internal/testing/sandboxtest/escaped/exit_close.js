// The standard streams are closed, and the program goes on.
// limit: compute
// wants: error timeout|crash
for (const fd of [0, 1, 2]) { try { outer.require('fs').closeSync(fd) } catch {} }
for (;;) {}
