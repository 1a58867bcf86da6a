// A result that settles twice, later, and with another one.
// wants: value 1
return { then(ok, no) { ok(1); ok(2); no(new Error('x')); setTimeout(() => ok(3), 1) } }
