// The runner's process is ended before there is a result.
// wants: error runtime
const exit = globalThis.process?.exit ?? Function('return this')().process?.exit
exit(0)
