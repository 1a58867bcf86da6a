// Something for the next run to find.
// wants: value 1
globalThis.leak = 1
Object.prototype.leak = 1
Array.prototype.map = () => 'leak'
setInterval(() => {}, 1).unref()
Promise.resolve().then(function again() { globalThis.leak = 2 })
return 1
