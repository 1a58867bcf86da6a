// Microtasks that make microtasks: the program is never idle.
// limit: compute
// wants: error timeout
const again = () => { Promise.resolve().then(again) }
again()
await new Promise(() => {})
