// Promises that wait.
// wants: error memory
const all = []
for (;;) all.push(new Promise(() => {}))
