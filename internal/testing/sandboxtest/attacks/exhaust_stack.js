// A recursion.
// wants: error runtime
const f = () => f() + 1
return f()
