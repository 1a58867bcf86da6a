// A comparison that never ends, inside of a function of the engine.
// limit: compute
// wants: error timeout
return new Array(1e3).fill(0).map((_, i) => i).sort(() => { for (;;) {} })
