// An error whose texts are endless, and whose causes go round.
// wants: error runtime
const e = new Error('m'.repeat(100000))
e.name = 'n'.repeat(100000)
e.stack = 's'.repeat(1000000)
e.cause = new Error('c', { cause: e })
e.errors = new Array(1e6).fill(e)
e.tool = 'up__send'
e.kind = 'memory'
e.data = { a: 'd'.repeat(1000000) }
throw e
