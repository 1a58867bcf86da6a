// Text that is nested too deep to read, and a value too deep to write.
// wants: error runtime|memory
try { JSON.parse('['.repeat(5e6)) } catch (e) { if (!(e instanceof Error)) throw 1 }
let deep = {}
for (let i = 0; i < 3e5; i++) deep = { deep }
return deep
