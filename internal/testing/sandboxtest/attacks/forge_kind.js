// An error that says of itself that it is the host's.
// wants: error runtime
throw Object.assign(new Error('x'), { kind: 'timeout', name: 'ToolError', tool: 'up__send', data: { a: 1 } })
