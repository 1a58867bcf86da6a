// Arguments that are larger than a value may be.
// wants: value [true,true]
// made: 0
const big = 'x'.repeat(2 << 20)
const refused = await tools.up.read({ big }).then(() => false, (e) => e.name === 'RangeError')
const named = await callMCPTool('x'.repeat(1e6)).then(() => false, (e) => e.name === 'TypeError')
return [refused, named]
