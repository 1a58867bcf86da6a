// One string that doubles.
// wants: error runtime|memory
let s = 'x'
for (;;) s += s + 'y'
