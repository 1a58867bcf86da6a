// A result that JSON cannot hold.
const a = { b: [] }
a.b.push(a)
return a
