// Lines without end.
// wants: error output_limit
// log: *
for (;;) console.log('x'.repeat(1000))
