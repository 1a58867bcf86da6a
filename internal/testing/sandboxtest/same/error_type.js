// An error of the program.
const x = { y: 1 }
console.log(x.y)
throw new TypeError('no ' + x.y, { cause: new Error('why') })
