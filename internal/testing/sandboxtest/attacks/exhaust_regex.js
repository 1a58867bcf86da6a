// An expression that backtracks without end, inside of the engine.
// limit: compute
// wants: error timeout
return /^(a+)+$/.test('a'.repeat(40) + '!')
