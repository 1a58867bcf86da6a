// Memory that is handed out without being cleared, and pools that are shared with the runner.
// wants: value [0,0,0]
const dirty = (bytes) => bytes.reduce((n, b) => n + (b !== 0), 0)
let unsafe = 0
for (let i = 0; i < 200; i++) unsafe += dirty(Buffer.allocUnsafe(4096)) + dirty(Buffer.allocUnsafeSlow(64))
const small = Buffer.from('x')
const around = dirty(new Uint8Array(small.buffer)) - 1
let slack = 0
for (let i = 0; i < 50; i++) slack += dirty(new Uint8Array(new TextEncoder().encode('').buffer)) + dirty(new Uint8Array(1000))
return [unsafe, around, slack]
