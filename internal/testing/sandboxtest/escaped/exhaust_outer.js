// Buffers of the runner's realm.
// wants: error memory|crash
const all = []
for (;;) all.push(outer.Buffer.alloc(1 << 20, 1))
