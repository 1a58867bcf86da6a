// Buffers, which lie outside of the heap in some engines.
// wants: error memory
const all = []
for (;;) all.push(new Uint8Array(1 << 20).fill(1))
