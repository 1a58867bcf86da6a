// What the program throws is a proxy, all of whose traps throw and loop.
// wants: error runtime
const bad = () => { throw bad }
throw new Proxy({}, new Proxy({}, { get: () => bad }))
