// Calls that block the program, without end.
// wants: error call_limit
for (let i = 0; ; i++) { try { require('/skills/none' + i) } catch {} }
