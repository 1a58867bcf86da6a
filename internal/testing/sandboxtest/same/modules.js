// Modules of the user's, written in both ways.
await fs.writeFile('/skills/same_a.js', 'export const twice = (n) => n * 2; export default 1')
await fs.writeFile('/skills/same_b.js', 'module.exports = { thrice: (n) => n * 3 }')
const a = await import('/skills/same_a.js')
const out = [a.twice(2), a.default, require('/skills/same_b.js').thrice(2)]
await fs.unlink('/skills/same_a.js')
await fs.unlink('/skills/same_b.js')
return out
