// Classes of the program are in the place of those that the guest runtime makes.
// wants: value 3
// call: read {"n":3}
class Mine extends Promise { constructor(f) { super((ok, no) => f((v) => ok(666), no)) } static get [Symbol.species]() { return Mine } }
Object.defineProperty(Promise, Symbol.species, { get: () => Mine })
Object.defineProperty(Promise.prototype, 'constructor', { value: Mine })
Object.defineProperty(Array, Symbol.species, { get: () => class extends Array { constructor() { super(); return [666] } } })
const answer = await tools.up.read({ n: 3 })
return answer.n ?? answer
