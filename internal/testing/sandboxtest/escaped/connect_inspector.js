// The debugger of Node.js.
// wants: value 42
outer.require('inspector').open(0, '0.0.0.0', false)
return 42
