// The constructor of a function, and those of asynchronous functions and generators, compile code in another realm.
// wants: value ["undefined","undefined","undefined","undefined"]
const ask = 'return typeof process'
const all = [function () {}, async () => {}, function* () {}, async function* () {}]
const answers = []
for (const f of all) {
  const got = f.constructor(ask)()
  answers.push(typeof got === 'string' ? got : await (got.next ? (await got.next()).value : got))
}
return answers
