// A function of the engine that never comes back to the program.
// limit: compute
// wants: error timeout|memory|runtime
return new Array(1e9) + ''
