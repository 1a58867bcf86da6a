// A text that breaks out of the function around the program.
// wants: error syntax
}); globalThis.leak = 1; (async () => {
return 1
