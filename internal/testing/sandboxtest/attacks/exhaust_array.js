// An array of which the engine has to make all elements.
// limit: compute
// wants: error timeout|memory
return [...new Array(4e9 / 2)].length
