// Tagged templates, iterators and destructuring that the guest runtime uses take the program's own functions.
// wants: value 5
// call: read {"list":[1,2,3]}
Array.prototype[Symbol.iterator] = function* () { yield 'forged' }
String.prototype[Symbol.iterator] = function* () { yield 'forged' }
String.prototype.toString = String.prototype.valueOf = () => 'forged'
RegExp.prototype.exec = () => ['forged']
RegExp.prototype[Symbol.replace] = () => 'forged'
String.prototype.replace = String.prototype.slice = String.prototype.startsWith = () => 'forged'
const answer = await tools.up.read({ list: [1, 2, 3] })
return answer.list[1] + answer.list[2]
