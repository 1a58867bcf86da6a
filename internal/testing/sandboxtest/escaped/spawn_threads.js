// As many threads as there can be, all of which compute.
// limit: compute
// wants: error timeout|memory|crash
const { Worker } = outer.require('worker_threads')
for (let i = 0; i < 300; i++) { try { new Worker('for(;;);', { eval: true }).on('error', () => {}) } catch {} }
for (;;) {}
