// Arguments that are nested as deep as JSON may be read, and deeper.
// wants: error crash
const { writeSync } = outer.require('fs')
const deep = (n) => '{"t":"call","run":"' + outer.run + '","id":1,"kind":"tool","name":"up__send","args":{"input":{"a":' + '['.repeat(n) + ']'.repeat(n) + '}}}\n'
writeSync(1, deep(9997))
writeSync(1, deep(200000))
for (;;) {}
