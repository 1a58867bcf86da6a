// Numbers that double their digits.
// wants: error runtime|memory
let x = 2n
for (;;) x = x ** x
