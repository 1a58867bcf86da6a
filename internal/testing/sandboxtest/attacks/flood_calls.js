// Calls without end, although they are refused from some number on.
// wants: error call_limit
// calls: 50 read {}
// made: 600
for (;;) await tools.up.read({}).catch(() => {})
