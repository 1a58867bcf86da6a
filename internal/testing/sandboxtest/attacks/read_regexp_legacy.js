// The last match of the guest runtime, which the engine keeps for all.
// wants: value 0
// call: read {"password":"canary"}
await tools.up.read({ password: 'canary' })
new Date().toLocaleString('en', { timeZone: 'Europe/Berlin' })
const all = ['$1', '$_', 'input', 'lastMatch', '$&', 'lastParen', 'leftContext', 'rightContext'].map((key) => String(RegExp[key] ?? ''))
return all.filter((text) => text.includes('canary') || text.includes('{"t"')).length
