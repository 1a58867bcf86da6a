// Code that takes the engine's compiler for ever.
// wants: error runtime|memory
return eval('('.repeat(2e6))
