// An interval that is never cleared.
// limit: wait
// wants: error timeout|call_limit
setInterval(() => {}, 20)
await new Promise(() => {})
