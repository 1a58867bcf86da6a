// Running out of memory, and going on all the same.
// limit: compute
// wants: error memory|timeout
const all = []
for (;;) { try { for (;;) all.push(new Uint8Array(1 << 20).fill(1)) } catch {} }
