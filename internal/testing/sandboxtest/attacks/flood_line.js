// One line that is longer than all that a run may print.
// wants: error output_limit
// log: *
console.log('x'.repeat(3e6))
