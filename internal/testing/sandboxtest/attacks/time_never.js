// A promise that nobody settles.
// wants: error never_settles
await new Promise(() => {})
