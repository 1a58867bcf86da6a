// A module that pollutes whoever loads it.
// wants: value true
await fs.writeFile('/skills/evil.js', "Object.prototype.leak = 1; globalThis.leak = 1; module.exports = 1")
const m = require('/skills/evil.js')
void m
await fs.unlink('/skills/evil.js')
return Object.prototype.leak === 1
